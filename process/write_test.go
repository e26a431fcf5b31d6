package process

import (
	"bytes"
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

// A droppedConnection has writes of 6 MiB and 4 MiB, of which the second waits for room,
// and then has what a test adds to them.
type droppedConnection struct {
	*scene
	ctx  context.Context
	drop context.CancelFunc
}

func withDroppedConnection(t *testing.T, fn func(d *droppedConnection)) {
	t.Helper()
	play(t, true, func(p *protocol.StartParams) { p.PipeStdin = true }, func(s *scene) {
		d := &droppedConnection{scene: s}
		d.ctx, d.drop = context.WithCancel(s.Context())
		defer d.drop()
		d.write(d.ctx, "0", 6<<20)
		d.write(d.ctx, "1", 4<<20)
		fn(d)
	})
}

// write returns a function that returns the answer once there is one. The data repeats
// the id.
func (d *droppedConnection) write(ctx context.Context, id string, size int) (answer func() string) {
	return d.request(func() (*protocol.WriteResult, error) {
		return d.service.write(ctx, &protocol.WriteParams{ProcessID: "p", Chunk: bytes.Repeat([]byte(id), size), WriteID: &id})
	})
}

func (d *droppedConnection) closeStdin(ctx context.Context) (answer func() string) {
	return d.request(func() (*protocol.WriteResult, error) {
		return d.service.closeStdin(ctx, &protocol.ProcessParams{ProcessID: "p"})
	})
}

// request begins a request that comes after those before it.
func (d *droppedConnection) request(call func() (*protocol.WriteResult, error)) (answer func() string) {
	answered := make(chan string, 1)
	go func() { // ends with the request, and that with its connection
		r, err := call()
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- r.Status
	}()
	synctest.Wait()
	return func() string {
		synctest.Wait()
		select {
		case a := <-answered:
			return a
		default:
			return "waits"
		}
	}
}

// takeAll has the child take what is queued, and returns what it has taken: of each write
// the first byte.
func (d *droppedConnection) takeAll() string {
	for {
		synctest.Wait()
		select {
		case d.child.input.take <- nil:
			continue
		default:
		}
		var taken []string
		for _, w := range strings.Fields(d.child.input.written()) {
			if w != "EOF" {
				w = w[:1]
			}
			taken = append(taken, w)
		}
		return strings.Join(taken, " ")
	}
}

func (d *droppedConnection) check(got, want string) {
	d.Helper()
	if got != want {
		d.Errorf("got %q, want %q", got, want)
	}
}

// TestEndOfInputIsTakenBack: the end of the input does not overtake a write that the end
// of their connection takes back, and both can be sent again.
func TestEndOfInputIsTakenBack(t *testing.T) {
	withDroppedConnection(t, func(d *droppedConnection) {
		ended := d.closeStdin(d.ctx)
		d.check(ended(), "waits")
		d.drop()
		d.check(ended(), context.Canceled.Error())
		d.check(d.takeAll(), "0")
		d.check(d.write(d.Context(), "1", 4<<20)(), "accepted")
		d.check(d.closeStdin(d.Context())(), "accepted")
		d.check(d.takeAll(), "0 1 EOF")
	})
}

// TestWritesAreTakenBackTogether: no write of a connection is accepted after one before
// it was taken back.
func TestWritesAreTakenBackTogether(t *testing.T) {
	withDroppedConnection(t, func(d *droppedConnection) {
		for _, id := range []string{"2", "3", "4", "5"} {
			d.check(d.write(d.ctx, id, 1)(), "waits")
		}
		d.drop()
		d.check(d.write(d.ctx, "6", 1)(), context.Canceled.Error())
		d.check(d.takeAll(), "0")
		for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
			d.check(d.write(d.Context(), id, 1)(), "accepted")
		}
		d.check(d.closeStdin(d.Context())(), "accepted")
		d.check(d.takeAll(), "0 1 2 3 4 5 6 EOF")
	})
}

// TestRepeatsOutliveTheConnection: a client that is back before its last connection has
// been taken down repeats what was not answered, and gets it accepted, once and in order.
func TestRepeatsOutliveTheConnection(t *testing.T) {
	withDroppedConnection(t, func(d *droppedConnection) {
		d.write(d.ctx, "2", 1)
		d.closeStdin(d.ctx)
		d.check(d.closeStdin(d.ctx)(), "stdinClosed")
		var repeats []func() string
		for _, id := range []string{"0", "1", "2"} {
			repeats = append(repeats, d.write(d.Context(), id, 1))
		}
		repeats = append(repeats, d.closeStdin(d.Context()))
		d.drop()
		d.check(d.takeAll(), "0 1 2 EOF")
		for _, answer := range repeats {
			d.check(answer(), "accepted")
		}
		d.check(d.closeStdin(d.Context())(), "stdinClosed")
	})
}
