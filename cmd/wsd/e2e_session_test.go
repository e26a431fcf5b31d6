package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// replay is a session that follows a transcript.
type replay struct {
	t       *testing.T
	conn    *websocket.Conn
	wanted  []any             // patterns of messages
	outputs map[string]string // by process, what is still to come
	any     map[string]bool   // processes whose output does not matter
}

// TestSessionTranscript replays testdata/session.transcript against the real binary.
// The order of neighbouring answers and notifications is not looked at here; the
// transcripts of server/execserver do.
func TestSessionTranscript(t *testing.T) {
	raw, err := os.ReadFile("testdata/session.transcript")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := strings.NewReplacer("$W", dir, "$U", "file://"+dir).Replace(string(raw))
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), serveReal(t).url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	r := &replay{t: t, conn: conn, outputs: make(map[string]string), any: make(map[string]bool)}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if err := r.step(line); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
	}
	if err := r.catchUp(); err != nil {
		t.Fatal(err)
	}
}

func (r *replay) step(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "#":
		return nil
	case "->":
		if err := r.catchUp(); err != nil {
			return err
		}
		return r.conn.WriteMessage(websocket.TextMessage, []byte(rest))
	case "<-":
		var pattern any
		err := json.Unmarshal([]byte(rest), &pattern)
		r.wanted = append(r.wanted, pattern)
		return err
	case "<<":
		process, quoted, _ := strings.Cut(rest, " ")
		if quoted == "*" {
			r.any[process] = true
			return nil
		}
		text, err := strconv.Unquote(quoted)
		r.outputs[process] = text
		return err
	}
	return fmt.Errorf("unknown step %q", line)
}

// catchUp reads until everything that is wanted has come.
func (r *replay) catchUp() error {
	for len(r.wanted)+len(r.outputs) > 0 {
		_, raw, err := r.conn.ReadMessage()
		if err != nil {
			return fmt.Errorf("%w while waiting for %v %v", err, r.wanted, r.outputs)
		}
		if err := r.take(raw); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) take(raw []byte) error {
	var output struct {
		Method string
		Params struct {
			ProcessID string
			Chunk     []byte
		}
	}
	if json.Unmarshal(raw, &output) == nil && output.Method == "process/output" {
		if r.any[output.Params.ProcessID] {
			return nil
		}
		if want, ok := r.outputs[output.Params.ProcessID]; ok {
			return r.takeOutput(output.Params.ProcessID, want, string(output.Params.Chunk))
		}
	}
	var got any
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	for i, pattern := range r.wanted {
		if matches(pattern, got) {
			r.wanted = append(r.wanted[:i], r.wanted[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("got %s\nwant one of %v", raw, r.wanted)
}

func (r *replay) takeOutput(process, want, got string) error {
	left, ok := strings.CutPrefix(want, got)
	if !ok {
		return fmt.Errorf("output %q, want %q", got, want)
	}
	r.outputs[process] = left
	if left == "" {
		delete(r.outputs, process)
	}
	return nil
}

// matches reports whether got is what pattern describes. The elements of an array may
// come in any order.
func matches(pattern, got any) bool {
	switch p := pattern.(type) {
	case string:
		begin, open := strings.CutSuffix(p, "*")
		s, isString := got.(string)
		return p == "*" || open && isString && strings.HasPrefix(s, begin) || got == p
	case map[string]any:
		members, ok := got.(map[string]any)
		for name, want := range p {
			value, there := members[name]
			ok = ok && there && matches(want, value)
		}
		return ok
	case []any:
		elements, ok := got.([]any)
		return ok && len(elements) == len(p) && matchesAll(p, elements)
	}
	return reflect.DeepEqual(pattern, got)
}

func matchesAll(patterns, elements []any) bool {
	used := make([]bool, len(elements))
next:
	for _, p := range patterns {
		for i, e := range elements {
			if !used[i] && matches(p, e) {
				used[i] = true
				continue next
			}
		}
		return false
	}
	return true
}

// The matcher itself must be able to say no.
func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, got string
		want         bool
	}{
		{`{"a":1}`, `{"a":1,"b":2}`, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{`{"a":1}`, `[]`, false},
		{`"*"`, `7`, true},
		{`"x*"`, `"xyz"`, true},
		{`"x*"`, `"yx"`, false},
		{`"x"`, `"xyz"`, false},
		{`[1,2]`, `[2,1]`, true},
		{`[1,1]`, `[1,2]`, false},
		{`[]`, `[1]`, false},
		{`null`, `0`, false},
	} {
		var pattern, got any
		if json.Unmarshal([]byte(tc.pattern), &pattern) != nil || json.Unmarshal([]byte(tc.got), &got) != nil {
			t.Fatal(tc)
		}
		if matches(pattern, got) != tc.want {
			t.Errorf("matches(%s, %s) = %v", tc.pattern, tc.got, !tc.want)
		}
	}
}
