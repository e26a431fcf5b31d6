package main

import (
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

// What a command prints on both streams comes in the order in which it printed, when both go
// to one place, for as long as all that it printed before was read.
func TestF10ExecKeepsTheOrder(t *testing.T) {
	cmd := program(t, "exec", "--", "sh", "-c", `while read first; do
	case $first in
	o) echo o; echo e >&2;;
	e) echo e >&2; echo o;;
	esac
done`)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = theirs, theirs
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		want := []string{"o\ne\n", "e\no\n"}[rand.IntN(2)]
		if _, err := io.WriteString(stdin, want[:2]); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(out, got); err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("it printed %q, want %q", got, want)
			break
		}
	}
	_ = stdin.Close()
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
}
