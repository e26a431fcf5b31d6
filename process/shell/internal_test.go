package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
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
	rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: recorded{}})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	s := &Shell{cfg: Config{Recorder: rec}.withDefaults(), live: make(map[string]*run)}
	req := Request{Stdin: make([]byte, maxStdinBytes)}
	for i := range maxStdinTotal / maxStdinBytes {
		req.ID = fmt.Sprint(i)
		if _, err := s.reserve(&req); err != nil {
			t.Fatal(err)
		}
	}
	req = Request{ID: "more", Stdin: []byte("x")}
	if _, err := s.reserve(&req); !errors.Is(err, &protocol.NamedError{Code: CodeBusy}) {
		t.Error(err)
	}
	s.fed(1)
	if _, err := s.reserve(&req); err != nil {
		t.Error(err)
	}
}

// recorded is a Store that has one run, of so many events of eight bytes and an exit.
type recorded struct {
	eventlog.Store
	events uint64
}

func (r recorded) Recover(context.Context, time.Time) ([]int64, error) { return nil, nil }

func (r recorded) Sweep(context.Context, eventlog.Keep) error { return nil }

func (r recorded) List(context.Context, eventlog.Query) ([]eventlog.Record, error) {
	return []eventlog.Record{{Ended: true, Last: r.events + 1, At: time.Now()}}, nil
}

func (r recorded) Read(_ context.Context, _ int64, after uint64, maxBytes, _ int) (page []eventlog.Event, _ error) {
	for seq := after + 1; seq <= r.events && (len(page) == 0 || 8*len(page)+8 <= maxBytes); seq++ {
		page = append(page, eventlog.Event{Seq: seq, Kind: eventlog.KindOutput, Stream: Stdout, Data: make([]byte, 8)})
	}
	if len(page) == 0 && after == r.events {
		page = append(page, exited(0))
		page[0].Seq = r.events + 1
	}
	return page, nil
}

// The pages of all followers together are bounded: those for which there is no room read
// single events. What is read to its end, or closed, makes room again.
func TestF8PagesAreBounded(t *testing.T) {
	const events = 10
	rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: recorded{events: events}})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	s := &Shell{cfg: Config{Recorder: rec}.withDefaults()}
	var all []*follower
	for i := range maxPageBytes/pageBytes + 10 {
		f, err := s.Follow(t.Context(), "x", After{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, f.(*follower))
		if left, few := len(all[i].page), i >= maxPageBytes/pageBytes; few != (left == 0) {
			t.Fatalf("follower %d has %d events at hand", i, left)
		}
	}
	if n := s.pages.Load(); n != maxPageBytes {
		t.Errorf("%d bytes", n)
	}
	for i, f := range all {
		seq := uint64(1)
		for {
			if i%2 == 0 && seq == events/2 {
				break
			}
			e, err := f.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if seq++; err != nil || e.Seq != seq {
				t.Fatalf("event %d is %d, %v", seq, e.Seq, err)
			}
		}
		if i%2 == 1 && seq != events+1 {
			t.Errorf("the last event is %d", seq)
		}
		f.Close()
		f.Close()
	}
	if n := s.pages.Load(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
}

// Runs that wait for one settle have it look from the earliest of their beginnings on.
func TestSettleSince(t *testing.T) {
	noon := time.Now()
	var asked []time.Time
	s := settler{settle: func(_ context.Context, since time.Time) error {
		asked = append(asked, since)
		return nil
	}}
	var run func()
	start := func(fn func()) { run = fn }
	for _, minutes := range []time.Duration{5, 1, 3} {
		s.ask(t.Context(), noon.Add(minutes*time.Minute), start)
	}
	run()
	s.ask(t.Context(), noon.Add(7*time.Minute), start)
	run()
	if len(asked) != 2 || !asked[0].Equal(noon.Add(time.Minute)) || !asked[1].Equal(noon.Add(7*time.Minute)) {
		t.Errorf("it looks from %v on, noon is %v", asked, noon)
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
