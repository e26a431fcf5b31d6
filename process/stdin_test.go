package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/protocol"
)

// slowInput is an Input that takes a write when told to.
type slowInput struct {
	take chan error // the results of writes
	once sync.Once
	over chan struct{}

	mu  sync.Mutex
	got []string
}

func newSlowInput() *slowInput {
	return &slowInput{take: make(chan error), over: make(chan struct{})}
}

func (s *slowInput) do(what string) error {
	select {
	case err := <-s.take:
		if err == nil {
			s.mu.Lock()
			s.got = append(s.got, what)
			s.mu.Unlock()
		}
		return err
	case <-s.over:
		return syscall.EPIPE
	}
}

func (s *slowInput) Write(p []byte) (int, error) { return len(p), s.do(string(p)) }

// TryWrite takes nothing: what is written waits for the test.
func (s *slowInput) TryWrite([]byte) (int, error) { return 0, nil }
func (s *slowInput) EOF() error                   { return s.do("EOF") }
func (s *slowInput) Close() error                 { s.once.Do(func() { close(s.over) }); return nil }

func (s *slowInput) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, " ")
}

// state of a ticket, when everything is at rest.
func state(tk *ticket) string {
	synctest.Wait()
	select {
	case <-tk.done:
		if tk.err != nil {
			return tk.err.Error()
		}
		return "accepted"
	default:
		return "waits"
	}
}

func mustPut(t *testing.T, s *stdin, data string) *ticket {
	t.Helper()
	tk, err := s.put(t.Context(), nil, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func TestStdinKeepsOrderAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		var tickets []*ticket
		for i := range protocol.MaxQueuedWrites + 3 {
			tickets = append(tickets, mustPut(t, s, fmt.Sprint(i)))
		}
		for i, tk := range tickets {
			want := "accepted"
			if i >= protocol.MaxQueuedWrites {
				want = "waits"
			}
			if got := state(tk); got != want {
				t.Errorf("write %d: %s, want %s", i, got, want)
			}
		}
		in.take <- nil
		if got := state(tickets[protocol.MaxQueuedWrites]); got != "accepted" {
			t.Errorf("after a write there is room for another: %s", got)
		}
		if got := state(tickets[protocol.MaxQueuedWrites+1]); got != "waits" {
			t.Errorf("but not for two: %s", got)
		}
		var want []string
		for i := range tickets {
			want = append(want, fmt.Sprint(i))
		}
		for range len(tickets) - 1 {
			in.take <- nil
		}
		synctest.Wait()
		if got := in.written(); got != strings.Join(want, " ") {
			t.Errorf("written: %s", got)
		}
		s.close()
	})
}

func TestStdinLimitsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		huge := strings.Repeat("x", protocol.MaxQueuedWriteBytes+1)
		if got := state(mustPut(t, s, huge)); got != "accepted" {
			t.Errorf("a write over the limit, alone: %s", got)
		}
		small := mustPut(t, s, "y")
		if got := state(small); got != "waits" {
			t.Errorf("behind it: %s", got)
		}
		in.take <- nil
		if got := state(small); got != "accepted" {
			t.Errorf("after it: %s", got)
		}
		s.close()
	})
}

func TestStdinWriteIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		put := func(ctx context.Context, id, data string) *ticket {
			t.Helper()
			tk, err := s.put(ctx, &id, []byte(data))
			if err != nil {
				t.Fatal(err)
			}
			return tk
		}
		long := strings.Repeat("i", 1000)
		put(t.Context(), "1", "a")
		put(t.Context(), "1", "b")
		put(t.Context(), long, "c")
		put(t.Context(), long, "d")
		put(t.Context(), long+"!", "e")
		for range 3 {
			in.take <- nil
		}
		synctest.Wait()
		if got := in.written(); got != "a c e" {
			t.Errorf("written: %s", got)
		}

		// While the first waits for room, the repeat waits with it; one of the two
		// leaving changes nothing for the other.
		for range protocol.MaxQueuedWrites {
			mustPut(t, s, "x")
		}
		old, endOld := context.WithCancel(t.Context())
		resumed, endResumed := context.WithCancel(t.Context())
		first := put(old, "2", "f")
		for range 3 {
			if repeat := put(resumed, "2", "f"); state(first) != "waits" || first != repeat {
				t.Error("the repeat has a ticket of its own")
			}
		}
		if len(first.holders) != 2 {
			t.Errorf("%d holders are kept of two connections", len(first.holders))
		}
		endOld()
		s.withdraw()
		if got := state(first); got != "waits" {
			t.Errorf("the repeat, when the first was withdrawn: %s", got)
		}
		endResumed()
		s.withdraw()
		if got := state(first); got == "waits" || got == "accepted" {
			t.Errorf("a withdrawn write: %s", got)
		}
		if again := put(t.Context(), "2", "g"); again == first {
			t.Error("a withdrawn id is still known")
		}
		s.close()
	})
}

func TestWriteIDsForgetsTheOldest(t *testing.T) {
	var ids writeIDs
	for i := range protocol.MaxWriteIDs + 10 {
		ids.add(fmt.Sprint(i), &ticket{})
	}
	for i := range protocol.MaxWriteIDs + 10 {
		if known := ids.find(fmt.Sprint(i)) != nil; known != (i >= 10) {
			t.Fatalf("id %d: known is %v", i, known)
		}
	}
	if len(ids.tickets) != protocol.MaxWriteIDs || len(ids.order) != protocol.MaxWriteIDs {
		t.Errorf("%d tickets, %d places", len(ids.tickets), len(ids.order))
	}
}

func TestStdinEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		mustPut(t, s, "a")
		if tk, err := s.putEOF(t.Context(), false); err != nil || state(tk) != "accepted" {
			t.Errorf("EOF of a terminal: %v", err)
		}
		mustPut(t, s, "b")
		if tk, err := s.putEOF(t.Context(), true); err != nil || state(tk) != "accepted" {
			t.Errorf("EOF of a pipe: %v", err)
		}
		if _, err := s.put(t.Context(), nil, []byte("c")); !errors.Is(err, errStdinClosed) {
			t.Errorf("write after EOF: %v", err)
		}
		if _, err := s.putEOF(t.Context(), true); !errors.Is(err, errStdinClosed) {
			t.Errorf("EOF after EOF: %v", err)
		}
		for range 4 {
			in.take <- nil
		}
		synctest.Wait()
		if got := in.written(); got != "a EOF b EOF" {
			t.Errorf("written: %s", got)
		}
		s.close()
	})
}

// TestStdinAbandonedEOF: the end of the input that a connection leaves behind waiting keeps
// nobody from writing, even before that connection withdraws it.
func TestStdinAbandonedEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		old, drop := context.WithCancel(t.Context())
		for range protocol.MaxQueuedWrites + 1 {
			if _, err := s.put(old, nil, []byte("a")); err != nil {
				t.Fatal(err)
			}
		}
		if tk, err := s.putEOF(old, true); err != nil || state(tk) != "waits" {
			t.Fatalf("EOF: %v", err)
		}
		drop()
		mustPut(t, s, "b")
		s.withdraw()
		for range protocol.MaxQueuedWrites + 1 {
			in.take <- nil
		}
		synctest.Wait()
		if got, want := in.written(), strings.Repeat("a ", protocol.MaxQueuedWrites)+"b"; got != want {
			t.Errorf("written %s, want %s", got, want)
		}
		s.close()
	})
}

func TestStdinDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		var last *ticket
		for range protocol.MaxQueuedWrites + 5 {
			last = mustPut(t, s, "a")
		}
		in.take <- syscall.EPIPE
		if got := state(last); got != "accepted" {
			t.Errorf("a write that waited: %s", got)
		}
		if got := state(mustPut(t, s, strings.Repeat("b", protocol.MaxQueuedWriteBytes))); got != "accepted" {
			t.Errorf("a later write: %s", got)
		}
		if s.bytes != 0 || len(s.queue) != 0 {
			t.Errorf("%d bytes in %d writes are kept for nobody", s.bytes, len(s.queue))
		}
		s.close()
		if in.written() != "" {
			t.Errorf("written: %s", in.written())
		}
	})
}

func TestStdinTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newSlowInput()
		s := newStdin(in)
		var last *ticket
		for range protocol.MaxQueuedWrites + 1 {
			last = mustPut(t, s, "a")
		}
		s.terminate()
		if got := state(last); got != errStdinBroken.Error() {
			t.Errorf("a write that waited: %s", got)
		}
		if _, err := s.put(t.Context(), nil, []byte("b")); !errors.Is(err, errStdinBroken) {
			t.Errorf("a later write: %v", err)
		}
		s.close() // ends the write that is under way
	})
}

// TestStdinModel checks random sequences: everything accepted is written once, in
// order, until the child turns deaf.
func TestStdinModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 400).Draw(rt, "steps")
		var fault string
		synctest.Test(t, func(t *testing.T) {
			in := newSlowInput()
			s := newStdin(in)
			var puts []*ticket
			var names []string
			var leave []context.CancelFunc
			for i, step := range steps {
				switch {
				case step < 3:
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					tk, err := s.put(ctx, nil, []byte(fmt.Sprint(i)))
					if err != nil {
						fault = err.Error()
						return
					}
					puts, names, leave = append(puts, tk), append(names, fmt.Sprint(i)), append(leave, cancel)
				case step == 3 && len(puts) > 0:
					if tk := puts[len(puts)-1]; state(tk) == "waits" {
						leave[len(puts)-1]()
						s.withdraw()
						puts, names, leave = puts[:len(puts)-1], names[:len(names)-1], leave[:len(puts)-1]
					}
				default:
					synctest.Wait()
					select {
					case in.take <- nil:
					default: // nothing to write
					}
				}
			}
			for range puts {
				synctest.Wait()
				select {
				case in.take <- nil:
				default:
				}
			}
			synctest.Wait()
			if got, want := in.written(), strings.Join(names, " "); got != want {
				fault = fmt.Sprintf("written %q, want %q", got, want)
			}
			s.close()
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}
