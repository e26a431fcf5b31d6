package process

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// TestRead follows exec-rpc.md, section 3.7.
func TestRead(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		read := func(after, maxBytes, waitMs *uint64) string {
			s.Helper()
			begin := time.Now()
			r, err := s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "p", AfterSeq: after, MaxBytes: maxBytes, WaitMs: waitMs})
			if err != nil {
				s.Fatal(err)
			}
			var seqs []string
			for _, chunk := range r.Chunks {
				seqs = append(seqs, fmt.Sprint(chunk.Seq))
			}
			out := fmt.Sprintf("[%s] next %d", strings.Join(seqs, " "), r.NextSeq)
			if r.Exited {
				out += fmt.Sprintf(" exited %d", *r.ExitCode)
			}
			if r.Closed {
				out += " closed"
			}
			if waited := time.Since(begin); waited > 0 {
				out += fmt.Sprintf(" after %v", waited)
			}
			return out
		}
		n := func(v uint64) *uint64 { return &v }
		check := func(got, want string) {
			s.Helper()
			if got != want {
				s.Errorf("got  %s\nwant %s", got, want)
			}
		}
		check(read(nil, nil, nil), "[] next 1")
		check(read(nil, nil, n(0)), "[] next 1")
		check(read(nil, nil, n(300)), "[] next 1 after 300ms")
		for _, text := range []string{"aaaa", "bbbb", "cc"} {
			s.out().print(text)
			synctest.Wait()
		}
		check(read(nil, nil, nil), "[1 2 3] next 4")
		check(read(n(1), nil, n(1000)), "[2 3] next 4")
		check(read(nil, n(0), nil), "[1] next 2")
		check(read(nil, n(4), nil), "[1] next 2")
		check(read(nil, n(7), nil), "[1] next 2")
		check(read(nil, n(8), nil), "[1 2] next 3")
		check(read(nil, n(1<<63), nil), "[1 2 3] next 4")
		check(read(n(3), n(8), nil), "[] next 4")
		check(read(n(3), nil, n(100)), "[] next 4 after 100ms")
		check(read(n(99), nil, nil), "[] next 4")
		check(read(n(1<<63), nil, n(100)), "[] next 4 after 100ms")
		go func() {
			time.Sleep(200 * time.Millisecond)
			s.out().print("d")
		}()
		check(read(n(3), nil, n(1000)), "[4] next 5 after 200ms")

		// A wait that cannot be counted in nanoseconds ends with the event all the same.
		go func() {
			time.Sleep(time.Hour)
			s.child.holds = true
			s.child.end(WaitStatus{Code: 9})
		}()
		check(read(n(4), nil, n(1<<64-1)), fmt.Sprintf("[] next 6 exited 9 after %v", time.Hour+quietTime))
		check(read(n(4), nil, n(1000)), "[] next 6 exited 9")
		check(read(n(5), nil, n(1000)), "[] next 6 exited 9 after 1s")
		check(read(n(3), n(1), nil), "[4] next 5 exited 9")
		s.out().print("late")
		s.out().finish()
		s.stderr().finish()
		synctest.Wait()
		check(read(n(5), nil, n(1000)), "[6] next 8 exited 9 closed")
		check(read(n(7), nil, n(1000)), "[] next 8 exited 9 closed")

		_, err := s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "nope", WaitMs: n(1000)})
		refused(s.T, err, protocol.CodeInvalidRequest, "unknown process id nope")
		time.Sleep(protocol.ProcessRetention + time.Second)
		_, err = s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "p"})
		refused(s.T, err, protocol.CodeInvalidRequest, "unknown process id p")
	})
}

// TestReadEndsWithItsConnection: a long poll returns what is known when nobody waits
// for it any more.
func TestReadEndsWithItsConnection(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		wait := uint64(3_600_000)
		r, err := s.service.read(ctx, &protocol.ReadParams{ProcessID: "p", WaitMs: &wait})
		if err != nil || r.NextSeq != 1 || time.Since(s.begin) != time.Second {
			s.Errorf("got %+v, %v after %v", r, err, time.Since(s.begin))
		}
	})
}
