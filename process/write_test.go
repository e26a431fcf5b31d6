package process

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

func TestWriteAnswers(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		write := func(id string, writeID *string) string {
			t.Helper()
			r, err := s.write(t.Context(), &protocol.WriteParams{ProcessID: id, Chunk: []byte("x"), WriteID: writeID})
			if err != nil {
				return err.Error()
			}
			return r.Status
		}
		closeStdin := func(id string) string {
			t.Helper()
			r, err := s.closeStdin(t.Context(), &protocol.ProcessParams{ProcessID: id})
			if err != nil {
				return err.Error()
			}
			return r.Status
		}
		check := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		start(t, s, fakeParams("null"))
		pipe := fakeParams("pipe")
		pipe.PipeStdin = true
		start(t, s, pipe)
		term := fakeParams("term")
		term.TTY = true
		start(t, s, term)

		_, err := s.write(t.Context(), &protocol.WriteParams{ProcessID: "pipe", WriteID: new(string)})
		refused(t, err, protocol.CodeInvalidParams, "writeId must not be empty")
		check(write("nope", nil), "unknownProcess")
		check(closeStdin("nope"), "unknownProcess")
		check(write("null", nil), "stdinClosed")
		check(closeStdin("null"), "stdinClosed")
		id := "1"
		check(write("pipe", &id), "accepted")
		check(closeStdin("pipe"), "accepted")
		check(write("pipe", nil), "stdinClosed")
		check(write("pipe", &id), "accepted") // it was
		check(closeStdin("pipe"), "stdinClosed")
		check(closeStdin("term"), "accepted")
		check(write("term", nil), "accepted")
		for _, in := range []*slowInput{spawner.child(t, 1).input, spawner.child(t, 2).input} {
			in.take <- nil
			in.take <- nil
		}
		synctest.Wait()
		check(spawner.child(t, 1).input.written(), "x EOF")
		check(spawner.child(t, 2).input.written(), "EOF x")

		// One that has ended by itself takes writes while it is kept.
		spawner.child(t, 2).end(WaitStatus{})
		synctest.Wait()
		check(write("term", nil), "accepted")
		time.Sleep(protocol.ProcessRetention + time.Second)
		check(write("term", nil), "unknownProcess")
	})
}

// TestWriteGivenUp: a write that waits for room is taken back when its connection
// ends; the process is not changed by it.
func TestWriteGivenUp(t *testing.T) {
	play(t, true, func(p *protocol.StartParams) { p.PipeStdin = true }, func(s *scene) {
		for range protocol.MaxQueuedWrites {
			if _, err := s.service.write(s.Context(), &protocol.WriteParams{ProcessID: "p", Chunk: []byte("a")}); err != nil {
				s.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		id := "given up"
		if r, err := s.service.write(ctx, &protocol.WriteParams{ProcessID: "p", Chunk: []byte("b"), WriteID: &id}); err == nil {
			s.Errorf("answer is %+v", r)
		}
		for range protocol.MaxQueuedWrites {
			s.child.input.take <- nil
		}
		if r, err := s.service.write(s.Context(), &protocol.WriteParams{ProcessID: "p", Chunk: []byte("c"), WriteID: &id}); err != nil || r.Status != protocol.WriteAccepted {
			s.Errorf("repeat: %+v, %v", r, err)
		}
		s.child.input.take <- nil
		synctest.Wait()
		if got := s.child.input.written(); !strings.HasSuffix(got, "a c") || strings.Contains(got, "b") {
			s.Errorf("written: %s", got)
		}
	})
}
