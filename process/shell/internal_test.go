package shell

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	server := []string{
		"PATH=/bin", "HOME=/h", "TMPDIR=/t", "TZ=UTC", "LANG=C", "TERM=x", "LC_ALL=C", "LC_CTYPE=D",
		"LCX=1", "SHELL=/bin/zsh", "USER=me", "AWS_SECRET=1", "COMPUTER_RPC_SECRET=s", "COMPUTER_VAR=1", "COMPUTER_VAR_=1", "nonsense", "=x",
		"COMPUTER_VAR_PATH=/opt", "COMPUTER_VAR_API=a=b", "COMPUTER_VAR_COMPUTER_RPC_SECRET=s", "COMPUTER_VAR_EMPTY=",
	}
	got := environ(server, []string{"COMPUTER_RPC_SECRET"}, map[string]string{"API": "own", "X": ""})
	want := "API=own EMPTY= HOME=/h LANG=C LC_ALL=C LC_CTYPE=D PATH=/opt TERM=x TMPDIR=/t TZ=UTC X="
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got := environ(nil, nil, nil); len(got) > 0 {
		t.Error(got)
	}
}

// Runs that have ended keep so many pipes open, and others none.
func TestLingering(t *testing.T) {
	s := &Shell{lingering: make(map[*run]struct{})}
	var last *run
	for range maxLingering {
		last = new(run)
		if !s.linger(last) {
			t.Fatal("refused")
		}
	}
	if s.linger(new(run)) {
		t.Error("one too many")
	}
	s.lingered(last)
	s.closing = true
	if s.linger(new(run)) {
		t.Error("after Close")
	}
}

// The stdin of live runs together is bounded.
func TestStdinTotal(t *testing.T) {
	s := &Shell{cfg: Config{}.withDefaults(), live: make(map[string]*run)}
	req := Request{Stdin: make([]byte, maxStdinBytes)}
	for i := range maxStdinTotal / maxStdinBytes {
		req.ID = fmt.Sprint(i)
		if _, err := s.reserve(&req); err != nil {
			t.Fatal(err)
		}
	}
	req = Request{ID: "more", Stdin: []byte("x")}
	if _, err := s.reserve(&req); !errors.Is(err, &Error{Code: CodeBusy}) {
		t.Error(err)
	}
	s.fed(1)
	if _, err := s.reserve(&req); err != nil {
		t.Error(err)
	}
}

// Much output is swept before its time.
func TestSweepEarly(t *testing.T) {
	s := &Shell{sweepNow: make(chan struct{}, 1), cfg: Config{KeepBytes: 400}}
	s.logged(400 / sweepParts)
	if len(s.sweepNow) > 0 {
		t.Error("too early")
	}
	s.logged(1)
	if len(s.sweepNow) != 1 || s.unswept != 0 {
		t.Error("not swept")
	}
}

func TestNewID(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := newID()
		if len(id) != 36 || id[14] != '4' || !bytes.ContainsRune([]byte("89ab"), rune(id[19])) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}
