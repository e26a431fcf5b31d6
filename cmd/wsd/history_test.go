package main

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
)

// The table's columns do not move when a later command is printed, unless it needs more room;
// no command took less than no time, and of one that is lost nobody knows.
func TestHistoryTable(t *testing.T) {
	at := func(ms int64) *int64 { return &ms }
	var out strings.Builder
	h := historyPrinter{out: &out}
	for _, list := range [][]protocol.HistoryCommand{
		{{Number: 1, Client: "codex-with-a-long-name", Argv: []string{"make"}, StartedAtMs: 5000}},
		{
			{Number: 2, Argv: []string{"a\x1b[2J"}, StartedAtMs: 5000, EndedAtMs: at(1000), ExitCode: new(0)},
			{Number: 3, Argv: []string{"c"}, StartedAtMs: 5000, EndedAtMs: at(9000)},
		},
		{{Number: 4, Argv: []string{"d"}, StartedAtMs: 5000, EndedAtMs: at(6500), ExitCode: new(0), Bytes: 1 << 20, Client: "ü"}},
	} {
		if err := h.printAll(list); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%q", lines)
	}
	for i, want := range []string{"COMMAND", "make", `"a\x1b[2J"`, "c", "d"} {
		line := []rune(lines[i])
		if at := strings.Index(lines[0], "COMMAND"); string(line[min(at, len(line)):]) != want {
			t.Errorf("line %d is %q", i, lines[i])
		}
	}
	for i, want := range map[int]string{1: "-", 2: "0s", 3: "-", 4: "1.5s"} {
		if took := strings.Fields(lines[i])[3]; took != want {
			t.Errorf("line %d took %s, want %s", i, took, want)
		}
	}
}
