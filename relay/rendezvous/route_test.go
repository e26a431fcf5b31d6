package rendezvous

import (
	"fmt"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
)

// routing is an executor without a socket, and harnesses of two subjects.
func routing() (e *executor, alice, again, bob *harness) {
	e = &executor{routes: map[string]*route{}, harnesses: map[*harness]struct{}{}}
	make := func(subject string) *harness {
		h := &harness{executor: e, subject: subject, streams: map[string]*route{}}
		e.add(h)
		return h
	}
	return e, make("a.k"), make("a.k"), make("b.k")
}

func glanceOf(stream string, k kind, p frame.Profile) glance {
	return glance{stream: []byte(stream), kind: k, profile: p}
}

func TestRoute(t *testing.T) {
	e, alice, again, bob := routing()
	const data = kind(5)
	steps := []struct {
		what string
		h    *harness
		g    glance
		want bool
	}{
		{"data of a stream that was not opened", alice, glanceOf("s", data, frame.Codex), false},
		{"a reset of one", alice, glanceOf("s", kindReset, frame.Codex), false},
		{"a resume opens it", alice, glanceOf("s", kindResume, frame.Codex), true},
		{"then data passes", alice, glanceOf("s", data, frame.Codex), true},
		{"not that of somebody else", bob, glanceOf("s", data, frame.Codex), false},
		{"nor their handshake", bob, glanceOf("s", kindHandshake, frame.Codex), false},
		{"nor their reset", bob, glanceOf("s", kindReset, frame.Codex), false},
		{"nor the owner's other socket's", again, glanceOf("s", kindResume, frame.Reliable), false},
		{"a handshake without a resume opens a stream", bob, glanceOf("t", kindHandshake, frame.Codex), true},
		{"a reliable stream", alice, glanceOf("r", kindResume, frame.Reliable), true},
		{"is not taken over by somebody else", bob, glanceOf("r", kindResume, frame.Reliable), false},
		{"nor downgraded", again, glanceOf("r", kindResume, frame.Codex), false},
		{"nor by a handshake", again, glanceOf("r", kindHandshake, frame.Reliable), false},
		{"but comes back to its owner", again, glanceOf("r", kindResume, frame.Reliable), true},
		{"over the new socket", again, glanceOf("r", data, frame.Codex), true},
		{"and no longer over the old", alice, glanceOf("r", data, frame.Codex), false},
		{"a reset ends a stream", alice, glanceOf("s", kindReset, frame.Codex), true},
		{"which is over", alice, glanceOf("s", data, frame.Codex), false},
	}
	for _, s := range steps {
		if got := e.route(s.h, s.g); got != s.want {
			t.Errorf("%s: %v", s.what, got)
		}
	}
}

func TestRouteLimits(t *testing.T) {
	e, alice, _, _ := routing()
	for i := range MaxStreams + 1 {
		if got := e.route(alice, glanceOf(fmt.Sprint(i), kindResume, frame.Codex)); got != (i < MaxStreams) {
			t.Fatalf("stream %d: %v", i+1, got)
		}
	}
	e = &executor{routes: map[string]*route{}, harnesses: map[*harness]struct{}{}}
	add := func(token string) bool { return e.add(&harness{executor: e, subject: token + ".k"}) }
	for range MaxHarnesses {
		add("a")
	}
	if len(e.harnesses) != MaxHarnesses/2 || !add("b") {
		t.Errorf("%d harnesses of one token, and no room for another", len(e.harnesses))
	}
}

// A reliable stream that lost its socket keeps its owner, as long as there is room.
func TestParted(t *testing.T) {
	e, alice, again, bob := routing()
	e.route(alice, glanceOf("r", kindResume, frame.Reliable))
	e.remove(alice)
	if e.route(bob, glanceOf("r", kindResume, frame.Reliable)) {
		t.Error("somebody else has it")
	}
	if !e.route(again, glanceOf("r", kindResume, frame.Reliable)) || len(e.parted) != 0 {
		t.Error("it does not come back")
	}
	e.remove(again)
	for i := range MaxParted {
		h := &harness{executor: e, subject: "c.k", streams: map[string]*route{}}
		e.route(h, glanceOf(fmt.Sprint(i), kindResume, frame.Reliable))
		e.remove(h)
	}
	if len(e.parted) != MaxParted || len(e.routes) != MaxParted || e.routes["r"] != nil {
		t.Errorf("%d parted, %d routes", len(e.parted), len(e.routes))
	}
	e.parted[0].parted = time.Now().Add(-PartedLife - time.Second)
	first := e.parted[0].stream
	e.remove(&harness{executor: e})
	if e.routes[first] != nil {
		t.Error("one that parted long ago keeps its owner")
	}
}
