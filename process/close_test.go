package process

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := bubbled()
		spawner, client := &fakeSpawner{exact: true}, &recorder{}
		s := NewService(client, Config{Spawner: spawner})
		var waits []chan error
		later := func(fn func() error) {
			done := make(chan error, 1)
			waits = append(waits, done)
			go func() { done <- fn() }()
		}
		for i := range 5 {
			p := fakeParams(fmt.Sprint("p", i))
			p.PipeStdin = true
			ms := uint64(60_000)
			p.TimeoutMs = &ms
			start(t, s, p)
			later(func() error {
				_, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: p.ProcessID, WaitMs: &ms})
				return err
			})
		}
		spawner.child(t, 0).end(WaitStatus{}) // kept
		spawner.child(t, 1).holds = true
		client.stall()
		for range 20 {
			spawner.child(t, 2).outputs[0].print(strings.Repeat("x", 64<<10))
		}
		spawner.slow = make(chan struct{})
		later(func() error {
			_, err := s.start(t.Context(), fakeParams("late"))
			return err
		})
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			close(spawner.slow) // a start under way is waited for
		}()
		closeService(t, s)
		closeService(t, s)
		for _, done := range waits {
			if err := <-done; err != nil && !errors.Is(err, rpc.ErrClosed) {
				t.Errorf("request that waited: %v", err)
			}
		}
		for i := range spawner.count() {
			if c := spawner.child(t, i); !c.closed || !c.ended {
				t.Errorf("child %d: closed %v, ended %v", i, c.closed, c.ended)
			}
		}
		if spawner.closed != 1 {
			t.Errorf("the spawner was closed %d times", spawner.closed)
		}
		_, err := s.start(t.Context(), fakeParams("q"))
		refused(t, err, protocol.CodeInvalidRequest, "the session is ending")
		if _, err := s.read(t.Context(), &protocol.ReadParams{ProcessID: "p0"}); err == nil {
			t.Error("a process of a closed service can be read")
		}
		synctest.Wait()
		if after := bubbled(); after > before {
			t.Errorf("%d goroutines, %d before", after, before)
		}
	})
}

// bubbled counts the goroutines in the caller's bubble; those of other tests come and go.
func bubbled() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	own, _, _ := bytes.Cut(stacks, []byte("]:\n"))
	return bytes.Count(stacks, append(own[bytes.LastIndex(own, []byte("synctest bubble ")):], "]:\n"...))
}

// TestCloseGivesUpOnStuckChild: a child that SIGKILL does not end, because the kernel
// waits for a disk, must not keep the server from ending.
func TestCloseGivesUpOnStuckChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawner := &fakeSpawner{exact: true}
		s := NewService(&recorder{}, Config{Spawner: spawner})
		for i := range 3 {
			start(t, s, fakeParams(fmt.Sprint("p", i)))
		}
		spawner.child(t, 1).obey = false
		begin := time.Now()
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 do not end") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begin); took != closeTime {
			t.Errorf("it took %v", took)
		}
		spawner.child(t, 1).end(WaitStatus{})
	})
}

// countingLog is a Log that knows when it was closed.
type countingLog struct {
	*eventlog.Log
	closes *int
}

func (l countingLog) Close() error { *l.closes++; return nil }

func TestLogIsClosedOnce(t *testing.T) {
	closes := 0
	cfg := Config{Retention: time.Minute, OpenLog: func(string) (Log, error) {
		return countingLog{eventlog.NewLog(nil, eventlog.Retention{}), &closes}, nil
	}}
	bubble(t, cfg, func(t *testing.T, s *Service, spawner *fakeSpawner, client *recorder) {
		client.stall()
		start(t, s, fakeParams("p"))
		spawner.child(t, 0).end(WaitStatus{})
		time.Sleep(2 * time.Minute)
		if closes != 0 {
			t.Error("closed before the client was told of everything")
		}
		client.resume()
		synctest.Wait()
		wantEvents(t, client, "1 exited 0", "2 closed")
		if closes != 1 {
			t.Errorf("closed %d times", closes)
		}
		spawner.fail = &SpawnError{Op: opExec, Errno: syscall.ENOMEM}
		if _, err := s.start(t.Context(), fakeParams("q")); kindOf(err) != protocol.KindSpawnFailed {
			t.Errorf("start: %v", err)
		}
		if closes != 2 {
			t.Errorf("closed %d times after a failed start", closes)
		}
	})
}

func TestOpenLogFails(t *testing.T) {
	cfg := Config{OpenLog: func(string) (Log, error) { return nil, errDiskFull }}
	bubble(t, cfg, func(t *testing.T, s *Service, spawner *fakeSpawner, _ *recorder) {
		_, err := s.start(t.Context(), fakeParams("p"))
		refused(t, err, protocol.CodeInternal, "no space left")
		if spawner.count() != 0 || len(s.entries) != 0 {
			t.Error("something was started")
		}
	})
}
