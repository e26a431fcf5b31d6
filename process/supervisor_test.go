package process

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// scene is one process in fake time.
type scene struct {
	*testing.T
	spawner *fakeSpawner
	client  *recorder
	service *Service
	child   *fakeChild
	begin   time.Time
}

func (s *scene) out() *fakeOutput    { return s.child.outputs[0] }
func (s *scene) stderr() *fakeOutput { return s.child.outputs[1] }

// want checks the events since the last look, and that they came at once.
func (s *scene) want(events ...string) {
	s.Helper()
	synctest.Wait()
	wantEvents(s.T, s.client, events...)
}

func (s *scene) signals() []fakeSignal {
	synctest.Wait()
	var got []fakeSignal
	for {
		select {
		case sig := <-s.child.signals:
			got = append(got, sig)
		default:
			return got
		}
	}
}

func (s *scene) read(after uint64) *protocol.ReadResult {
	s.Helper()
	r, err := s.service.read(s.Context(), &protocol.ReadParams{ProcessID: "p", AfterSeq: &after})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// play runs fn with a process that change may alter.
func play(t *testing.T, exact bool, change func(*protocol.StartParams), fn func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, spawner: &fakeSpawner{exact: exact}, client: &recorder{}, begin: time.Now()}
		s.service = NewService(s.client, Config{Spawner: s.spawner})
		defer closeService(t, s.service)
		p := fakeParams("p")
		if change != nil {
			change(p)
		}
		start(t, s.service, p)
		s.child = s.spawner.child(t, 0)
		fn(s)
	})
}

func TestEventsInOrder(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		s.out().print("a")
		s.want("1 stdout a")
		s.stderr().print("b")
		s.want("2 stderr b")
		s.child.end(WaitStatus{Code: 3})
		s.want("3 exited 3", "4 closed")
	})
}

// TestExitedAfterOwnOutput: what the process itself has printed comes before exited,
// although a descendant keeps the streams open and goes on printing.
func TestExitedAfterOwnOutput(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		s.client.stall()
		s.child.holds = true
		for range 3 {
			s.out().print(strings.Repeat("x", maxUnpublishedBytes/2))
		}
		synctest.Wait()
		if s.out().left() != 1 {
			s.Errorf("%d reads are left while the client is stalled", s.out().left())
		}
		s.child.end(WaitStatus{})
		time.Sleep(time.Hour) // however long the client takes
		if r := s.read(0); r.Exited {
			s.Error("exited before the output was read")
		}
		s.client.resume()
		time.Sleep(drainTime)
		s.want("1 stdout xxxxxxxxxxxxxxxxxxxx", "2 stdout xxxxxxxxxxxxxxxxxxxx", "3 stdout xxxxxxxxxxxxxxxxxxxx", "4 exited 0")
		s.out().print("late")
		s.want("5 stdout late")
		if r := s.read(5); !r.Exited || r.Closed || r.NextSeq != 6 {
			s.Errorf("read returned %+v", r)
		}
		s.out().finish()
		s.want()
		s.stderr().finish()
		s.want("6 closed")
	})
}

// TestExitedAfterOutputOfTerminal: what a terminal passes on late comes before exited, when
// the client is slow, and when the machine is.
func TestExitedAfterOutputOfTerminal(t *testing.T) {
	tty := func(p *protocol.StartParams) { p.TTY = true }
	t.Run("client", func(t *testing.T) {
		play(t, false, tty, func(s *scene) {
			s.client.stall()
			s.child.holds = true
			s.out().stops = []time.Duration{0, 0, 0, 0, 0, 1}
			s.child.end(WaitStatus{})
			synctest.Wait()
			for range 3 {
				s.out().print(strings.Repeat("x", maxUnpublishedBytes/2))
			}
			time.Sleep(time.Hour)
			s.client.resume()
			time.Sleep(time.Millisecond + quietTimeTerminal)
			s.want("1 pty xxxxxxxxxxxxxxxxxxxx", "2 pty xxxxxxxxxxxxxxxxxxxx", "3 pty xxxxxxxxxxxxxxxxxxxx", "4 exited 0")
		})
	})
	t.Run("machine", func(t *testing.T) {
		play(t, false, tty, func(s *scene) {
			s.child.holds = true
			s.out().stops = []time.Duration{0, 0, quietTimeTerminal + 2*time.Millisecond, 1}
			s.child.end(WaitStatus{})
			time.Sleep(quietTimeTerminal + time.Millisecond)
			s.out().print("late")
			time.Sleep(2*time.Millisecond + quietTimeTerminal)
			s.want("1 pty late", "2 exited 0")
		})
	})
}

// TestExitedDoesNotWaitForDescendants, quiet or not.
func TestExitedDoesNotWaitForDescendants(t *testing.T) {
	for name, exact := range map[string]bool{"pipes": true, "terminal": false} {
		quiet := map[bool]time.Duration{true: quietTime, false: quietTimeTerminal}[exact]
		change := func(p *protocol.StartParams) { p.TTY = !exact }
		t.Run(name+", quiet", func(t *testing.T) {
			play(t, exact, change, func(s *scene) {
				s.child.holds = true
				s.child.end(WaitStatus{})
				time.Sleep(quiet - time.Millisecond)
				s.want()
				time.Sleep(time.Millisecond)
				s.want("1 exited 0")
				s.out().print("late")
				stream := s.out().stream
				s.want("2 " + stream + " late")
			})
		})
		t.Run(name+", chatty", func(t *testing.T) {
			play(t, exact, change, func(s *scene) {
				s.child.holds = true
				s.child.end(WaitStatus{})
				exitedAfter := time.Duration(-1)
				for i := range 100 {
					s.out().print("x")
					synctest.Wait()
					if strings.Contains(s.client.take(), "exited") {
						exitedAfter = time.Duration(i) * 5 * time.Millisecond
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				if exitedAfter < 0 || exitedAfter > drainTime+10*time.Millisecond {
					s.Errorf("exited after %v", exitedAfter)
				}
			})
		})
	}
}

func TestTerminate(t *testing.T) {
	play(t, true, func(p *protocol.StartParams) { p.PipeStdin = true }, func(s *scene) {
		s.child.holds = true // an escaped descendant
		s.out().print("seen")
		s.want("1 stdout seen")
		result, err := s.service.terminate(s.Context(), &protocol.TerminateParams{ProcessID: "p"})
		if err != nil || !result.Running {
			s.Errorf("terminate: %+v, %v", result, err)
		}
		s.want("2 exited 137 SIGKILL", "3 closed")
		if got := s.signals(); len(got) != 1 || got[0] != (fakeSignal{syscall.SIGKILL, true}) {
			s.Errorf("signals: %v", got)
		}
		if time.Since(s.begin) != 0 {
			s.Errorf("it took %v", time.Since(s.begin))
		}
		if result, err := s.service.terminate(s.Context(), &protocol.TerminateParams{ProcessID: "p"}); err != nil || result.Running {
			s.Errorf("second terminate: %+v, %v", result, err)
		}
		_, err = s.service.write(s.Context(), &protocol.WriteParams{ProcessID: "p", Chunk: []byte("x")})
		if err == nil || err.Error() != "failed to write to process stdin" {
			s.Errorf("write after terminate: %v", err)
		}
	})
}

// TestTerminateOfStuckChild: the answer does not wait for the death.
func TestTerminateOfStuckChild(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		s.child.obey = false
		result, err := s.service.terminate(s.Context(), &protocol.TerminateParams{ProcessID: "p"})
		if err != nil || !result.Running {
			s.Errorf("terminate: %+v, %v", result, err)
		}
		s.want()
		s.child.end(WaitStatus{Signal: syscall.SIGKILL})
		s.want("1 exited 137 SIGKILL", "2 closed")
	})
}

// TestTerminateBeatsStalledClient: neither a stalled client nor a full stdin queue
// holds it up.
func TestTerminateBeatsStalledClient(t *testing.T) {
	play(t, true, func(p *protocol.StartParams) { p.PipeStdin = true }, func(s *scene) {
		s.client.stall()
		for range 10 {
			s.out().print(strings.Repeat("x", maxUnpublishedBytes))
		}
		writes := make(chan error, 1)
		go func() {
			for {
				if _, err := s.service.write(s.Context(), &protocol.WriteParams{ProcessID: "p", Chunk: []byte("y")}); err != nil {
					writes <- err
					return
				}
			}
		}()
		synctest.Wait()
		if _, err := s.service.terminate(s.Context(), &protocol.TerminateParams{ProcessID: "p"}); err != nil {
			s.Error(err)
		}
		if err := <-writes; err.Error() != "failed to write to process stdin" {
			s.Errorf("write that waited: %v", err)
		}
		synctest.Wait()
		if r := s.read(0); !r.Closed || *r.ExitCode != 137 {
			s.Errorf("read returned %+v", r)
		}
		s.client.resume()
		s.want("1 stdout xxxxxxxxxxxxxxxxxxxx", "2 exited 137 SIGKILL", "3 closed")
	})
}

func TestDeadline(t *testing.T) {
	timeout := func(p *protocol.StartParams) { ms := uint64(5000); p.TimeoutMs = &ms }
	t.Run("in time", func(t *testing.T) {
		play(t, true, timeout, func(s *scene) {
			time.Sleep(4 * time.Second)
			s.child.end(WaitStatus{})
			s.want("1 exited 0", "2 closed")
			time.Sleep(time.Hour)
			if got := s.signals(); len(got) != 0 {
				s.Errorf("signals: %v", got)
			}
		})
	})
	t.Run("SIGTERM is enough", func(t *testing.T) {
		play(t, true, timeout, func(s *scene) {
			time.Sleep(5 * time.Second)
			if got := s.signals(); len(got) != 1 || got[0] != (fakeSignal{syscall.SIGTERM, true}) {
				s.Errorf("signals: %v", got)
			}
			s.out().print("bye")
			s.child.end(WaitStatus{Code: 7})
			s.want("1 stdout bye", "2 exited 7 timedOut", "3 closed")
			if r := s.read(3); !r.TimedOut {
				s.Errorf("read returned %+v", r)
			}
			time.Sleep(time.Hour)
			if got := s.signals(); len(got) != 0 {
				s.Errorf("more signals: %v", got)
			}
		})
	})
	t.Run("SIGKILL is needed, and a descendant holds the streams", func(t *testing.T) {
		play(t, true, timeout, func(s *scene) {
			s.child.holds = true
			time.Sleep(5*time.Second + killDelay - time.Millisecond)
			s.out().print("last words")
			s.want("1 stdout last words")
			time.Sleep(time.Millisecond)
			if got := s.signals(); len(got) != 2 || got[1] != (fakeSignal{syscall.SIGKILL, true}) {
				s.Errorf("signals: %v", got)
			}
			time.Sleep(quietTime)
			s.want("2 exited 137 SIGKILL timedOut", "3 closed")
		})
	})
	t.Run("the process has ended, its descendants have not", func(t *testing.T) {
		play(t, true, timeout, func(s *scene) {
			s.child.holds = true
			s.child.end(WaitStatus{})
			time.Sleep(quietTime)
			s.want("1 exited 0")
			time.Sleep(5*time.Second + killDelay)
			s.want("2 closed")
		})
	})
}

// TestDetached: without a client the child runs free, and who comes back is told what
// happens from then on.
func TestDetached(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		s.client.leave(true)
		for range 100 {
			s.out().print(strings.Repeat("x", 64<<10))
		}
		synctest.Wait()
		if s.out().left() != 0 {
			s.Errorf("%d reads are left", s.out().left())
		}
		s.client.leave(false)
		r := s.read(0)
		if n := len(r.Chunks); n != 16 || r.Chunks[0].Seq != 85 || r.NextSeq != 101 {
			s.Errorf("read returned %d chunks, next %d", n, r.NextSeq)
		}
		s.out().print("new")
		s.want("101 stdout new")
	})
}

// TestNotifyThatFailsWithTheConnection: the event on its way when the connection ends
// is lost for that one, and the next client gets what follows, without a hole.
func TestNotifyThatFailsWithTheConnection(t *testing.T) {
	play(t, true, nil, func(s *scene) {
		s.client.stall()
		s.out().print("one")
		s.out().print("two")
		synctest.Wait()
		s.client.leave(true)
		s.client.resume() // Notify returns ErrClosed for both
		synctest.Wait()
		s.client.leave(false)
		if r := s.read(0); len(r.Chunks) != 2 {
			s.Errorf("read returned %+v", r)
		}
		s.out().print("three")
		s.want("3 stdout three")
	})
}

// TestStalledClientLosesNothing: the child is held back long before the log has to
// forget what the client has not seen.
func TestStalledClientLosesNothing(t *testing.T) {
	for name, size := range map[string]int{"large chunks": 64 << 10, "small chunks": 1} {
		t.Run(name, func(t *testing.T) {
			play(t, true, nil, func(s *scene) {
				const total = 60_000
				count := min(total, 64<<20/size)
				s.client.stall()
				for range count {
					s.out().update(func() { s.out().buffered = append(s.out().buffered, make([]byte, size)) })
				}
				synctest.Wait()
				read := count - s.out().left()
				if read*size > maxUnpublishedBytes+size || read > maxUnpublishedChunks+1 {
					s.Errorf("%d reads of %d bytes were made", read, size)
				}
				s.client.resume()
				s.child.end(WaitStatus{})
				synctest.Wait()
				s.client.mu.Lock()
				got := len(s.client.events)
				s.client.mu.Unlock()
				if got != count+2 || s.client.bytes != count*size {
					s.Errorf("%d events with %d bytes, want %d with %d", got, s.client.bytes, count+2, count*size)
				}
			})
		})
	}
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		status      WaitStatus
		pipes, term int
	}{
		{WaitStatus{}, 0, 0},
		{WaitStatus{Code: 255}, 255, 255},
		{WaitStatus{Signal: syscall.SIGTERM}, 143, 1},
		{WaitStatus{Signal: syscall.SIGSYS}, 159, 1},
		{WaitStatus{Lost: true}, -1, -1},
	} {
		if got := tt.status.ExitCode(false); got != tt.pipes {
			t.Errorf("%+v with pipes: %d", tt.status, got)
		}
		if got := tt.status.ExitCode(true); got != tt.term {
			t.Errorf("%+v with a terminal: %d", tt.status, got)
		}
	}
}

// TestBrokenLog: a process whose output cannot be kept is ended, and a reader told.
func TestBrokenLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawner, client := &fakeSpawner{exact: true}, &recorder{}
		s := NewService(client, Config{Spawner: spawner, OpenLog: func(string) (Log, error) {
			return &brokenLog{eventlog.NewLog(nil, eventlog.Retention{}), 1}, nil
		}})
		defer closeService(t, s)
		start(t, s, fakeParams("p"))
		child := spawner.child(t, 0)
		child.outputs[0].print("kept")
		synctest.Wait()
		child.outputs[0].print("lost")
		synctest.Wait()
		wantEvents(t, client, "1 stdout kept")
		wait := uint64(1000)
		after := uint64(1)
		r, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: "p", AfterSeq: &after, WaitMs: &wait})
		if err != nil || r.Failure == nil || !strings.Contains(*r.Failure, "no space left") {
			t.Errorf("read returned %+v, %v", r, err)
		}
		synctest.Wait()
		r, err = s.read(t.Context(), &protocol.ReadParams{ProcessID: "p", AfterSeq: &after, WaitMs: &wait})
		if err != nil || !r.Exited || !r.Closed {
			t.Errorf("the process runs on: %+v, %v", r, err)
		}
	})
}
