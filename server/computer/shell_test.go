package computer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

func newEvent(name, data string) shell.Event {
	return shell.Event{Name: name, Data: []byte(data)}
}

func TestExecRequests(t *testing.T) {
	ms := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		name string
		in   any
		want shell.Request
	}{
		{"all", map[string]any{
			"source": "true", "cwd": "/workspace/a", "id": "x", "env": map[string]string{"A": "1", "B": ""}, "stdin": []byte("in"), "timeoutMs": 1500, "input": 5, "nonsense": true,
		}, shell.Request{Command: "true", Cwd: "/workspace/a", ID: "x", Env: map[string]string{"A": "1", "B": ""}, Stdin: []byte("in"), Timeout: ms(1500 * time.Millisecond)}},
		{"command goes before source", map[string]any{"source": "a", "command": "b"}, shell.Request{Command: "b"}},
		{"command that is none", map[string]any{"source": "a", "command": 5}, shell.Request{Command: "a"}},
		{"nothing to run", map[string]any{"command": ""}, shell.Request{}},
		{"null", map[string]any{"command": "a", "cwd": nil, "id": nil, "env": nil, "stdin": nil, "timeoutMs": nil}, shell.Request{Command: "a"}},
		{"stdin as text", map[string]any{"command": "a", "stdin": "ü"}, shell.Request{Command: "a", Stdin: []byte("ü")}},
		{"no time", map[string]any{"command": "a", "timeoutMs": 0}, shell.Request{Command: "a", Timeout: ms(0)}},
		{"very little time", map[string]any{"command": "a", "timeoutMs": 1e-9}, shell.Request{Command: "a", Timeout: ms(1)}},
		{"all time", map[string]any{"command": "a", "timeoutMs": math.Inf(1)}, shell.Request{Command: "a", Timeout: ms(0)}},
		{"a variable that is undefined", map[string]any{"command": "a", "env": map[string]any{"A": capnweb.Undefined{}, "B": "2"}}, shell.Request{Command: "a", Env: map[string]string{"B": "2"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			var run wire.Run[wire.Event]
			if err := w.session(t).Main().Call(t.Context(), &run, "shell.exec", c.in); err != nil {
				t.Fatal(err)
			}
			for i := range w.runs.requests {
				r := &w.runs.requests[i]
				if !strings.HasPrefix(r.Peer, "127.0.0.1:") {
					t.Errorf("the client is at %q", r.Peer)
				}
				r.Peer, c.want.Client = "", clientName
			}
			if diff := cmp.Diff([]shell.Request{c.want}, w.runs.requests); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The id of a run is at most MaxIDBytes long.
func TestMaxIDBytes(t *testing.T) {
	w := newWorld(t)
	s := w.session(t)
	id := string(make([]byte, MaxIDBytes))
	if err := s.Main().Call(t.Context(), nil, "shell.exec", map[string]any{"command": "a", "id": id}); err != nil {
		t.Error(err)
	}
	if err := s.Main().Call(t.Context(), nil, "shell.exec", map[string]any{"command": "a", "id": id + "x"}); capnweb.Code(err) != "EINVAL" {
		t.Errorf("got %v", err)
	}
}

// What is called behind an exec that has not begun yet finds its run.
func TestExecComesFirst(t *testing.T) {
	w := newWorld(t)
	w.runs.starting = make(chan struct{})
	s := w.session(t)
	exec := s.Main().Start(t.Context(), "shell.exec", map[string]any{"command": "a", "id": "x"})
	kill := s.Main().Start(t.Context(), "shell.killExec", map[string]any{"id": "x", "signal": "SIGINT"})
	close(w.runs.starting)
	var run wire.Run[wire.Event]
	if err := errors.Join(exec.Await(t.Context(), &run), kill.Await(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	e, err := run.Events.Next(t.Context())
	if err != nil || e.Name != shell.Exit || *e.Code != 143 || e.Value != 143.0 {
		t.Errorf("%+v, %v", e, err)
	}
	if diff := cmp.Diff([]string{"exec x", "kill x SIGINT"}, w.runs.log); diff != "" {
		t.Error(diff)
	}
}

// events reads the numbers of the events up to the exit.
func events(t *testing.T, run wire.Run[wire.Event]) (seqs []uint64) {
	t.Helper()
	for e, err := range run.Events.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func TestGetExec(t *testing.T) {
	for _, c := range []struct {
		after any
		want  []uint64
	}{
		{nil, []uint64{1, 2, 3}},
		{capnweb.Undefined{}, []uint64{1, 2, 3}},
		{0, []uint64{1, 2, 3}},
		{-1, []uint64{1, 2, 3}},
		{1, []uint64{2, 3}},
		{3, nil},
		{1e300, nil},
		{math.Inf(1), nil},
		{"tail", nil},
	} {
		w := newWorld(t)
		run := &fakeRun{id: "x", grown: make(chan struct{})}
		run.add(newEvent("stdout", "a"))
		run.add(newEvent("stderr", "b"))
		run.add(newEvent("exit", ""))
		w.runs.runs["x"] = run
		var got wire.Run[wire.Event]
		if err := w.session(t).Main().Call(t.Context(), &got, "shell.getExec", map[string]any{"id": "x", "after": c.after}); err != nil {
			t.Fatal(err)
		}
		if got.ID != "x" {
			t.Errorf("the run is %q", got.ID)
		}
		if diff := cmp.Diff(c.want, events(t, got)); diff != "" {
			t.Errorf("after %v: %s", c.after, diff)
		}
	}
}

// A client that does not read has a run go on for EventWindow bytes and no more.
func TestEventWindow(t *testing.T) {
	w := newWorld(t)
	ws := w.socket(t, "/api")
	say(t, ws, `["push",["pipeline",0,["shell","exec"],[{"command":"a"}]]]`, `["pull",1]`)
	hear(t, ws)
	hear(t, ws)
	run := w.runs.run("made")
	piece := string(make([]byte, 64<<10))
	for range 20 {
		run.add(newEvent("stdout", piece))
	}
	size := 0
	for i := range 3 { // 3 * 87 KB are more than the window
		size += len(hear(t, ws))
		if over := size >= EventWindow; over != (i == 2) {
			t.Fatalf("%d bytes are sent with piece %d", size, i)
		}
	}
	// Nothing else is sent: the answer to another call is the next frame.
	say(t, ws, `["push",["pipeline",0,["sync","watermarks"],[]]]`, `["pull",2]`)
	if got := hear(t, ws); got[:12] != `["resolve",2` {
		t.Fatalf("got %.100s", got)
	}
	say(t, ws, `["resolve",2,["undefined"]]`)
	if got := hear(t, ws); got[:9] != `["stream"` {
		t.Fatalf("got %.100s", got)
	}
}

// Another session cannot follow a run that one follows, until that one stops.
func TestOneFollower(t *testing.T) {
	w := newWorld(t)
	first, second := w.session(t), w.session(t)
	var run, again wire.Run[wire.Event]
	if err := first.Main().Call(t.Context(), &run, "shell.exec", map[string]any{"command": "a", "id": "x"}); err != nil {
		t.Fatal(err)
	}
	input := map[string]any{"id": "x", "after": 1}
	for _, s := range []*capnweb.Session{first, second} {
		if err := s.Main().Call(t.Context(), nil, "shell.getExec", input); capnweb.Code(err) != "EEXEC_BUSY" {
			t.Errorf("got %v", err)
		}
	}
	w.runs.run("x").add(newEvent("stdout", "a"))
	if _, err := run.Events.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.Events.Cancel(errors.New("no more"))
	w.runs.run("x").add(newEvent("stdout", "b")) // the refusal of which is what tells the server
	eventually(t, "nobody follows", func() bool { return !w.runs.run("x").followed() })
	w.runs.run("x").add(newEvent("exit", ""))
	if err := second.Main().Call(t.Context(), &again, "shell.getExec", input); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{2, 3}, events(t, again)); diff != "" {
		t.Error(diff)
	}
}

// A session that follows a run again is known to do so when the server is done with the
// first time.
func TestFollowsAgain(t *testing.T) {
	c := newWorld(t).computer
	s := &session{computer: c}
	first, second := s.follows("x"), s.follows("x")
	first()
	if c.followers["x"] == nil {
		t.Error("the run has no follower")
	}
	second()
	if c.followers["x"] != nil {
		t.Error("the run still has a follower")
	}
}

// A client whose socket was cut follows its run again at once, without an error, from
// where it was; the run has gone on.
func TestFollowAfterACut(t *testing.T) {
	w := newWorld(t)
	ws := w.socket(t, "/api")
	say(t, ws, `["push",["pipeline",0,["shell","exec"],[{"command":"a","id":"x"}]]]`, `["pull",1]`)
	hear(t, ws)
	hear(t, ws)
	ws.NetConn().Close()
	second := w.session(t)
	w.runs.run("x").add(newEvent("stdout", "a"))
	w.runs.run("x").add(newEvent("exit", ""))
	var again wire.Run[wire.Event]
	if err := second.Main().Call(t.Context(), &again, "shell.getExec", map[string]any{"id": "x"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{1, 2}, events(t, again)); diff != "" {
		t.Error(diff)
	}
	eventually(t, "the first session is gone", func() bool { return w.computer.Sessions() == 1 })
}

// What the old connection has sent before its end, and the server has not read yet, is no
// sign of life.
func TestFollowAfterAGoodbye(t *testing.T) {
	w := newWorld(t)
	second := w.session(t)
	for i := range 20 {
		id := fmt.Sprint("run", i)
		ws := w.socket(t, "/api")
		say(t, ws, `["push",["pipeline",0,["shell","exec"],[{"command":"a","id":"`+id+`"}]]]`, `["pull",1]`)
		hear(t, ws)
		hear(t, ws)
		for range 50 {
			say(t, ws, `["push",["pipeline",0,["sync","watermarks"],[]]]`)
		}
		if err := ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, "")); err != nil {
			t.Fatal(err)
		}
		var again wire.Run[wire.Event]
		if err := second.Main().Call(t.Context(), &again, "shell.getExec", map[string]any{"id": id}); err != nil {
			t.Fatal(err)
		}
	}
}

// One whose old connection is silent, so that the server cannot have noticed its end,
// does so once the old one has not answered a ping.
func TestFollowBesideASilentConnection(t *testing.T) {
	w := newWorld(t)
	ws := w.socket(t, "/api")
	say(t, ws, `["push",["pipeline",0,["shell","exec"],[{"command":"a","id":"x"}]]]`, `["pull",1]`)
	hear(t, ws)
	hear(t, ws) // from here on nobody reads, and so nobody answers pings
	second := w.session(t)
	var again wire.Run[wire.Event]
	if err := second.Main().Call(t.Context(), &again, "shell.getExec", map[string]any{"id": "x"}); err != nil {
		t.Fatal(err)
	}
	w.runs.run("x").add(newEvent("exit", ""))
	if diff := cmp.Diff([]uint64{1}, events(t, again)); diff != "" {
		t.Error(diff)
	}
}
