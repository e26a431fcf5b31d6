//go:build interop

package interop

import (
	"regexp"
	"strconv"
	"testing"
)

var sessionID = regexp.MustCompile(`session ID (\d+)`)

// typing writes to the terminal of the command that the first tool output tells of.
func typing(chars string) step {
	return func(outputs []toolOutput) item {
		id := 0
		for _, o := range outputs {
			if found := sessionID.FindStringSubmatch(o.Text); found != nil {
				id, _ = strconv.Atoi(found[1])
				break
			}
		}
		return call("write_stdin", map[string]any{"session_id": id, "chars": chars, "yield_time_ms": 3000})(outputs)
	}
}

// A command on a terminal waits for input, is given some, and ends.
func TestTerminal(t *testing.T) {
	s := newSetup(t)
	m := newModel(
		t,
		call("exec_command", map[string]any{
			"cmd": `stty size; test -t 0 && test -t 1 && echo terminal; printf 'name? '; read name; echo "hello $name"; cat > typed`,
			"tty": true, "yield_time_ms": 2000,
		}),
		typing("wörld\n"),
		typing("more\n\x04"),
		say(),
	)
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	a.turn(thread)
	results := m.results(t)
	if len(results) != 3 {
		t.Fatalf("%d tool outputs: %v", len(results), results)
	}
	want(t, results[0].Text, "24 80", "terminal", "name? ")
	want(t, results[1].Text, "hello wörld")
	wantFile(t, s.workspace, "typed", "more\n")

	starts := s.tap.Messages(requests("process/start"))
	if len(starts) != 1 {
		t.Fatalf("%d process/start", len(starts))
	}
	var start struct{ TTY, PipeStdin bool }
	starts[0].Params(t, &start)
	if !start.TTY || start.PipeStdin {
		t.Errorf("process/start: %+v", start)
	}
	for i, w := range s.tap.Messages(requests("process/write")) {
		var write struct{ WriteID string }
		w.Params(t, &write)
		if write.WriteID != strconv.Itoa(i+1) {
			t.Errorf("write %d has id %q", i+1, write.WriteID)
		}
	}
	for _, w := range s.tap.Messages(answers("process/write")) {
		var write struct{ Status string }
		w.Params(t, &write)
		if write.Status != "accepted" {
			t.Errorf("process/write: %s", w.Raw)
		}
	}
	for _, o := range s.tap.Messages(notices("process/output")) {
		var output struct{ Stream string }
		o.Params(t, &output)
		if output.Stream != "pty" {
			t.Errorf("output on stream %q", output.Stream)
		}
	}
}

// The same without a terminal: stdin is nothing, and the command ends at once.
func TestNoTerminal(t *testing.T) {
	s := newSetup(t)
	m := newModel(t, shell("test -t 0 || echo none; cat; echo ended"), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	a.turn(thread)
	want(t, m.results(t)[0].Text, "none\nended", "code 0")
}
