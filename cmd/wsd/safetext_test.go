package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

func TestSL1Safe(t *testing.T) {
	for text, want := range map[string]string{
		"plain name.go":                     "plain name.go",
		"a\x1b[31m\nb\u009bé":               "a?[31m?b?é",
		"\x00\a\b\t\v\f\r\x7f":              "????????",
		"\x1b]0;T\x07":                      "?]0;T?",
		"a\u202eb\u2066c\u200e\u061c":       "a?b?c??",
		"a\u200bb\ufeffc\u2060d":            "a?b?c?d",
		".g\u200cit":                        ".g?it",
		"👩\u200d💻 \u0645\u06cc\u200c\u062e": "👩\u200d💻 \u0645\u06cc\u200c\u062e",
		"a\u2028b\u2029c\u0085d":            "a?b?c?d",
		"\xffé\x9b":                         "?é?",
		"\u3164\u115f\U000e0041":            "???",
		"\ufffd":                            "\ufffd",
		"日本語 żółw":                          "日本語 żółw",
	} {
		if got := safe(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestSL1SafeText(t *testing.T) {
	for _, tt := range []struct {
		text string
		tty  bool
		want string
	}{
		{"\ta\tb\x07", true, "\ta\tb?"},
		{"\ta\x1b\r", false, "\ta\x1b\r"},
		{"a\nforged:1:b", false, "a?forged:1:b"},
	} {
		if got := safeText(tt.text, tt.tty); got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

// An error is one line, whatever the other side has put into it.
func TestSL1Error(t *testing.T) {
	var out bytes.Buffer
	err := withHint(errors.Join(errors.New("a\x1b[2J\nHint: run this"), errors.New("b\r\u202e")), "c\nError: d")
	if code := report(&out, err); code != exitFailure {
		t.Errorf("exit status %d", code)
	}
	if want := "Error: a?[2J; Hint: run this; b??\nHint: c; Error: d\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestSL1Tables(t *testing.T) {
	const evil = "e\x1b]0;T\x07\u202e\tx\nforged"
	var ps bytes.Buffer
	list := []psEntry{processEntry(&protocol.ProcessInfo{ProcessID: evil, Argv: []string{evil, "\u202e"}}), durableEntry(&protocol.ExecInfo{ID: evil, Command: evil}, "/")}
	if err := printProcesses(&ps, list, time.Now()); err != nil {
		t.Error(err)
	}
	var relay bytes.Buffer
	status := &rendezvous.RelayStatus{}
	status.Nodes = append(status.Nodes, rendezvous.NodeStatus{})
	status.Nodes[0].ID, status.Nodes[0].URL = evil, evil
	status.Environments = append(status.Environments, rendezvous.EnvironmentStatus{ID: evil, Node: evil, Remote: evil, Fingerprint: evil})
	if err := printRelayStatus(&relay, status, time.Now()); err != nil {
		t.Error(err)
	}
	check := &connectionCheck{URL: evil, Version: evil, Cwd: evil, Hops: []hop{{Name: "x", Detail: evil, OK: true}, {Name: "y", Error: evil}}}
	failed := &connectionCheck{URL: evil, Error: evil, Hint: evil}
	for name, text := range map[string]string{"ps": ps.String(), "relay status": relay.String(), "doctor": check.text() + failed.text()} {
		if strings.ContainsAny(text, "\x1b\a\u202e\t") || strings.Contains(text, "\nforged") {
			t.Errorf("%s: %q", name, text)
		}
	}
}
