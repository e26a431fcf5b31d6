//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// numbered has a shell print lines with numbers, up to 100, then wait for the file go,
// and print up to 300.
const numbered = `for i in $(seq 1 100); do echo line $i; done
until test -e go; do sleep 0.02; done
for i in $(seq 101 300); do echo line $i; done
touch printed
`

// wantLines fails the test unless text has the lines 1 to 300, each once, in order.
func wantLines(t *testing.T, text string) {
	t.Helper()
	next := 1
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "line %d", &n); err != nil {
			continue
		}
		if n != next {
			t.Errorf("line %d where %d belongs", n, next)
		}
		next = n + 1
	}
	if next != 301 {
		t.Errorf("%d lines, want 300", next-1)
	}
}

// tells matches the output that contains text.
func tells(text string) func(*message) bool {
	return func(m *message) bool {
		var all struct{ Params struct{ Chunk []byte } }
		return notices("process/output")(m) && json.Unmarshal(m.Raw, &all) == nil &&
			strings.Contains(string(all.Params.Chunk), text)
	}
}

// await returns once the command has made the file.
func (s *setup) await(t *testing.T, name string) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(s.workspace, name)); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s does not appear", name)
		}
	}
}

// goOn lets the command go on that waits for the file go.
func (s *setup) goOn(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.workspace, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// within takes from c, in time.
func within(t *testing.T, c <-chan message, what string) message {
	t.Helper()
	select {
	case m := <-c:
		return m
	case <-time.After(time.Minute):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}

// wantResumed checks the wire of a session that was cut once: the second connection
// takes over the first one's session and reads once, from where the output broke off.
func wantResumed(t *testing.T, s *setup) {
	t.Helper()
	opened := s.tap.Messages(answers("initialize"))
	asked := s.tap.Messages(requests("initialize"))
	if len(asked) < 2 || len(opened) < 2 {
		t.Fatalf("%d initialize, want a second", len(asked))
	}
	var first, second struct{ SessionID string }
	var resume struct{ ResumeSessionID string }
	opened[0].Params(t, &first)
	opened[len(opened)-1].Params(t, &second)
	asked[len(asked)-1].Params(t, &resume)
	if resume.ResumeSessionID != first.SessionID || second.SessionID != first.SessionID {
		t.Errorf("session %q was resumed as %q and became %q", first.SessionID, resume.ResumeSessionID, second.SessionID)
	}
	reads := s.tap.Messages(requests("process/read"))
	if len(reads) != 1 {
		t.Fatalf("%d process/read, want one", len(reads))
	}
	last := 0
	for _, o := range s.tap.Messages(notices("process/output")) {
		if o.Connection < reads[0].Connection {
			var output struct{ Seq int }
			o.Params(t, &output)
			last = max(last, output.Seq)
		}
	}
	var read struct{ AfterSeq int }
	reads[0].Params(t, &read)
	// What was on its way at the cut may not have arrived.
	if read.AfterSeq > last {
		t.Errorf("read after %d, and %d had been sent", read.AfterSeq, last)
	}
}

// The connection is cut while a command runs, which goes on after the client is back.
func TestCutWhileRunning(t *testing.T) {
	s := newSetup(t)
	m := newModel(t, shell(numbered), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	output := s.tap.Watch(tells("line 100\n"))
	read := s.tap.Watch(answers("process/read"))
	turn := a.begin(thread)
	within(t, output, "line 100")
	s.tap.Cut()
	within(t, read, "process/read after the cut")
	s.goOn(t)
	a.finish(turn)
	wantLines(t, m.results(t)[0].Text)
	want(t, m.results(t)[0].Text, "code 0")
	wantResumed(t, s)
}

// The command prints and ends while nobody is there; the client gets all of it.
func TestCutUntilEnded(t *testing.T) {
	s := newSetup(t)
	m := newModel(t, shell(numbered), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	output := s.tap.Watch(tells("line 100\n"))
	turn := a.begin(thread)
	within(t, output, "line 100")
	release := s.tap.Hold()
	defer release()
	s.tap.Cut()
	s.goOn(t)
	s.await(t, "printed")
	release()
	a.finish(turn)
	wantLines(t, m.results(t)[0].Text)
	want(t, m.results(t)[0].Text, "code 0")
	wantResumed(t, s)
}

// The connection is cut again and again, the first time in the midst of output, and
// upgrades are refused in between.
func TestCutOften(t *testing.T) {
	s := newSetup(t)
	m := newModel(t, shell(numbered), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	output := s.tap.Watch(notices("process/output"))
	read := s.tap.Watch(answers("process/read"))
	turn := a.begin(thread)
	within(t, output, "output")
	for range 4 {
		s.tap.Refuse(1)
		s.tap.Cut()
		within(t, read, "process/read after the cut")
	}
	s.goOn(t)
	a.finish(turn)
	wantLines(t, m.results(t)[0].Text)
	want(t, m.results(t)[0].Text, "code 0")
}

// A terminal survives a cut: what is typed afterwards arrives once.
func TestCutTerminal(t *testing.T) {
	s := newSetup(t)
	cut := func(next step) step {
		return func(outputs []toolOutput) item {
			s.tap.Cut()
			return next(outputs)
		}
	}
	m := newModel(
		t,
		call("exec_command", map[string]any{"cmd": `printf 'ready '; read a; echo "got $a"; read b; echo "then $b"`, "tty": true, "yield_time_ms": 1500}),
		cut(typing("one\n")),
		cut(typing("two\n")),
		say(),
	)
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	a.turn(thread)
	all := ""
	for _, o := range m.results(t) {
		all += o.Text + "\n"
	}
	want(t, all, "ready", "got one", "then two")
	if n := strings.Count(all, "got one"); n != 1 {
		t.Errorf("it got the first line %d times", n)
	}
}
