package main

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/process/sandbox"
)

func TestSandboxText(t *testing.T) {
	yes, no := sandbox.Finding{OK: true, Mechanism: "namespaces", Says: "can be done"}, sandbox.Finding{Says: "cannot be done"}
	report := sandbox.Report{ReadOnly: yes, WorkspaceWrite: yes, RestrictedRead: yes, DenyEntries: yes, NoNetwork: yes, ManagedNetwork: no}
	text := sandboxText(report)
	for _, want := range []string{"ok       read-only           can be done (namespaces)\n", "limited  managed network     cannot be done\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "refused") {
		t.Errorf("all that clients send can be enforced, yet:\n%s", text)
	}
	report.NoNetwork = no
	if text := sandboxText(report); !strings.Contains(text, "What cannot be enforced is refused") {
		t.Errorf("no warning in\n%s", text)
	}
}

func TestDoctorText(t *testing.T) {
	r := doctorReport{Checks: []check{
		{Name: "a", Status: statusOK, Detail: "fine"},
		{Name: "b", Status: statusLimited, Detail: "low", Advice: "raise it"},
	}, Connection: &connectionCheck{URL: "ws://x", Error: "refused"}}
	text := r.text()
	for _, want := range []string{"ok       a  fine\n", "limited  b  low\n", "\nb: raise it\n", "  none; 'wsd serve' starts one\n", "  missing  ws://x: refused\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "a: ") {
		t.Errorf("advice where all is well:\n%s", text)
	}
}

func TestIndent(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "  a\n", "a\nb\n": "  a\n  b\n"} {
		if got := indent(in); got != want {
			t.Errorf("indent(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWatchCheck(t *testing.T) {
	if c := watchCheck("w", 100, 50); c.Status != statusOK || c.Advice != "" {
		t.Errorf("enough: %+v", c)
	}
	if c := watchCheck("w", 10, 50); c.Status != statusLimited || !strings.Contains(c.Advice, "sysctl") {
		t.Errorf("too few: %+v", c)
	}
}
