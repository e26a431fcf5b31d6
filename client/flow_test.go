package client

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const testBuffer = 64 << 10

// flood prints from another goroutine, as fast as the client lets it.
func flood(proc *fakeProcess, count int) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for i := range count {
			send(proc.print("stdout", numbered(i)))
		}
		send(proc.exit(0), proc.end())
	}()
	return done
}

// pieceBytes is the size of what flood prints at a time.
const pieceBytes = 4096

func numbered(i int) string {
	text := fmt.Sprintf("%d ", i)
	return text + strings.Repeat(".", pieceBytes-len(text))
}

func wantNumbered(t *testing.T, r io.Reader, count int) {
	t.Helper()
	buf := make([]byte, pieceBytes)
	for i := range count {
		if _, err := io.ReadFull(r, buf); err != nil {
			t.Fatalf("piece %d: %v", i, err)
		}
		if string(buf) != numbered(i) {
			t.Fatalf("piece %d is %q", i, buf[:8])
		}
	}
	if n, err := r.Read(buf); n != 0 || err != io.EOF {
		t.Fatalf("after the end: %d, %v", n, err)
	}
}

// A reader that is slow, but not slower than StallTimeout, holds back the server and
// gets everything.
func TestSlowReaderHoldsBackTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.window = 1 << 10 // nothing could be recovered
		c := s.open(t, &Options{OutputBuffer: testBuffer, StallTimeout: time.Minute})
		p, proc := start(t, s, c)
		done := flood(proc, 500)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the server was not held back")
		default:
		}
		if p.queued > testBuffer+8192 {
			t.Errorf("%d bytes wait", p.queued)
		}
		time.Sleep(50 * time.Second)
		wantNumbered(t, p.Stdout, 500)
		wantExit(t, p, ExitStatus{})
		if n := s.count(protocol.MethodProcessRead); n != 0 {
			t.Errorf("%d reads", n)
		}
		<-done
	})
}

// A reader that has stopped does not stop the others; what it missed is fetched later.
func TestStoppedReaderDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, &Options{OutputBuffer: testBuffer, StallTimeout: 5 * time.Second})
		p, proc := start(t, s, c)
		other, otherProc := start(t, s, c)
		began := time.Now()
		done := flood(proc, 100)
		<-done
		send(otherProc.print("stdout", "hello"), otherProc.exit(0), otherProc.end())
		wantOutput(t, other, "hello", "")
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("the other waited %v", d)
		}
		if p.queued > testBuffer+8192 {
			t.Errorf("%d bytes wait", p.queued)
		}
		wantExit(t, p, ExitStatus{}) // known although the output before it is not here
		wantNumbered(t, p.Stdout, 100)
		if n := s.count(protocol.MethodProcessRead); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

// What the server no longer has is an error, after all that arrived.
func TestStoppedReaderLosesOutputWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.window = 32 << 10
		c := s.open(t, &Options{OutputBuffer: testBuffer, StallTimeout: 5 * time.Second})
		p, proc := start(t, s, c)
		<-flood(proc, 100)
		wantExit(t, p, ExitStatus{}) // it has all arrived
		got, err := io.ReadAll(p.Stdout)
		if !errors.Is(err, ErrOutputLost) || len(got) < testBuffer/2 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		for i := 0; i+pieceBytes <= len(got); i += pieceBytes {
			if string(got[i:i+pieceBytes]) != numbered(i/pieceBytes) {
				t.Fatalf("piece %d is another", i/pieceBytes)
			}
		}
	})
}

// An output that nobody wants is closed, and holds back nothing.
func TestClosedStreamHoldsBackNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, &Options{OutputBuffer: testBuffer, StallTimeout: -1})
		p, proc := start(t, s, c)
		done := flood(proc, 100)
		synctest.Wait()
		_ = p.Stdout.Close()
		<-done
		wantExit(t, p, ExitStatus{})
		if _, err := p.Stdout.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read: %v", err)
		}
	})
}

// Closing the Client is not kept waiting by a full buffer.
func TestCloseWhileHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, &Options{OutputBuffer: testBuffer, StallTimeout: -1})
		_, proc := start(t, s, c)
		done := flood(proc, 100)
		synctest.Wait()
		began := time.Now()
		_ = c.Close()
		<-done
		if d := time.Since(began); d > closeWait {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestNextKeepsTheOrderOfBothStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		var want []string
		for i := range 50 {
			stream := []string{"stdout", "stderr"}[rand.IntN(2)]
			want = append(want, fmt.Sprint(stream, i))
			send(proc.print(stream, fmt.Sprint(i)))
		}
		send(proc.exit(0), proc.end())
		for i, w := range want {
			got, err := p.Next(t.Context())
			if err != nil || got.Stream+string(got.Data) != w || got.Seq != uint64(i+1) {
				t.Fatalf("got %s %q %d, %v; want %s", got.Stream, got.Data, got.Seq, err, w)
			}
		}
		if _, err := p.Next(t.Context()); err != io.EOF {
			t.Errorf("after the last: %v", err)
		}
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		results := make(chan *Result, 1)
		go func() {
			result, err := c.Run(t.Context(), Command{Argv: []string{"x"}, ID: "p"}, strings.NewReader("input"))
			if err != nil {
				t.Error(err)
			}
			results <- result
		}()
		s.await(t, protocol.MethodProcessCloseStdin, 1)
		proc := s.process(t, &Process{id: "p"})
		if string(proc.stdin) != "input" {
			t.Errorf("stdin %q", proc.stdin)
		}
		send(proc.print("stdout", "out"), proc.print("stderr", "err"), proc.exit(2))
		// A descendant keeps the output open: Run does not wait for it.
		got := <-results
		if got == nil || string(got.Stdout) != "out" || string(got.Stderr) != "err" || got.Code != 2 || got.Truncated {
			t.Errorf("got %+v", got)
		}
	})
}
