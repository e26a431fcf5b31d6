package process

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// outputPair is the Output of two pipes, and their writing ends.
func outputPair(t *testing.T) (out *orderedOutput, stdout, stderr int) {
	t.Helper()
	var ours, theirs []int
	for range 2 {
		r, w, err := openPipe(true)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	outputs, err := newOutputs([]string{protocol.StreamStdout, protocol.StreamStderr}, ours, busyPipeBytes)
	if err != nil {
		t.Fatal(err)
	}
	out = outputs[0].(*orderedOutput)
	t.Cleanup(func() {
		_ = out.Close()
		for _, w := range theirs {
			_ = unix.Close(w) // closed by the test, as a rule
		}
	})
	return out, theirs[0], theirs[1]
}

// wantChunks reads as many chunks.
func wantChunks(t *testing.T, out Output, want ...string) {
	t.Helper()
	for _, w := range want {
		chunk, err := out.Read()
		if got := chunk.Stream + " " + string(chunk.Data) + errText(err); got != w {
			t.Fatalf("read %.60q, want %.60q", got, w)
		}
	}
}

// The pipe that was written to first is read first.
func TestF10FirstWrittenIsReadFirst(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	for range 1000 {
		if rand.IntN(2) == 0 {
			put(t, stdout, "o")
			put(t, stderr, "e")
			wantChunks(t, out, "stdout o", "stderr e")
		} else {
			put(t, stderr, "e")
			put(t, stdout, "o")
			wantChunks(t, out, "stderr e", "stdout o")
		}
	}
}

// What a pipe gets once another one waits to be read comes after that.
func TestF10LaterBytesWait(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	look := func(want int) {
		t.Helper()
		if n, exact := out.Buffered(); n != want || !exact {
			t.Fatalf("%d bytes are buffered, exact %v", n, exact)
		}
	}
	put(t, stdout, "a")
	look(1)
	put(t, stderr, "b")
	look(2)
	put(t, stdout, "c")
	wantChunks(t, out, "stdout a", "stderr b", "stdout c")
	look(0)

	// An event of what was read already takes no place in the order.
	put(t, stdout, "d")
	look(1)
	put(t, stdout, "e")
	wantChunks(t, out, "stdout d", "stdout e")
	put(t, stderr, "f")
	put(t, stdout, "g")
	wantChunks(t, out, "stderr f", "stdout g")
}

// All that a child has printed before it ended is read before what is printed later.
func TestBufferedIsReadFirst(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	put(t, stdout, "own")
	put(t, stderr, "OWN")
	left, _ := out.Buffered()
	put(t, stdout, strings.Repeat("x", 1000)) // of a descendant
	for left > 0 {
		chunk, err := out.Read()
		if err != nil || strings.Contains(string(chunk.Data), "x") {
			t.Fatalf("read %.20q, %v", chunk.Data, err)
		}
		left -= len(chunk.Data)
	}
	wantChunks(t, out, "stdout "+strings.Repeat("x", 1000))
}

// A busy pipe is not watched, keeps its place in the order, and is watched again when it is
// not busy any more.
func TestBusyPipeIsNotWatched(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	busy := out.sources[0]
	block := strings.Repeat("x", 32<<10)
	synctest.Test(t, func(t *testing.T) { // whose time does not pass while a busy machine does something else
		for range paceReads * 2 {
			put(t, stdout, block)
			wantChunks(t, out, "stdout "+block)
		}
	})
	if busy.watched || !busy.large.Load() {
		t.Errorf("it is watched: %v; it is large: %v", busy.watched, busy.large.Load())
	}
	put(t, stdout, "a")
	put(t, stderr, "b")
	wantChunks(t, out, "stdout a", "stderr b")
	later := make(chan string, 1)
	go func() {
		chunk, err := out.Read()
		later <- chunk.Stream + " " + string(chunk.Data) + errText(err)
	}()
	put(t, stdout, "later")
	if got := <-later; got != "stdout later" {
		t.Errorf("read %q", got)
	}
	for wait := time.Millisecond; !busy.watched; wait *= 2 { // it is not before its delay is over
		if err := out.SetDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		if chunk, err := out.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %q, %v", chunk.Data, err)
		}
	}
}

// Nothing is lost or changes places within a stream, however much is printed at a time.
func TestOrderedOutputIsWhole(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	const total = 8 << 20
	var writers sync.WaitGroup
	for i, w := range []int{stdout, stderr} {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			data := make([]byte, 128<<10)
			for sent := 0; sent < total; {
				n := min(1<<random.IntN(18), total-sent)
				for j := range n {
					data[j] = byte((sent + j) % 251)
				}
				written, err := unix.Write(w, data[:n])
				if err != nil {
					t.Error(err)
					break
				}
				sent += written
			}
			_ = unix.Close(w)
		})
	}
	got := make(map[string]int)
	for {
		chunk, err := out.Read()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		for _, b := range chunk.Data {
			if n := got[chunk.Stream]; b != byte(n%251) {
				t.Fatalf("byte %d of %s is %d", n, chunk.Stream, b)
			}
			got[chunk.Stream]++
		}
		eventlog.ReleaseChunk(chunk.Data)
	}
	writers.Wait()
	if got[protocol.StreamStdout] != total || got[protocol.StreamStderr] != total {
		t.Errorf("read %v", got)
	}
}

// A writer in the midst of one large write fills its pipe again without an event, if that was
// not empty: what is left after a turn is read nevertheless.
func TestTurnEndsWithinALargeWrite(t *testing.T) {
	out, stdout, _ := outputPair(t)
	const total = 1 << 20
	var writer sync.WaitGroup
	writer.Go(func() {
		_, _ = unix.Write(stdout, make([]byte, total))
		_ = unix.Close(stdout)
	})
	defer writer.Wait()
	defer out.Close()
	s, full := out.sources[0], 0
	if err := s.from.control(func(fd uintptr) { full, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); err != nil || full == 0 {
		t.Fatal(full, err)
	}
	page := os.Getpagesize()
	if full < 2*page {
		t.Skip("a pipe has one page") // as of a user with many pipes
	}
	fill := func() {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); s.held() < full; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("the pipe holds %d of %d bytes", s.held(), full)
			}
		}
	}
	fill()
	if _, exact := out.Buffered(); !exact || !s.queued {
		t.Fatal("the full pipe is not queued")
	}
	turn := full / page / 2 * page // whole pages: only those have room again
	s.turn = turn                  // as if another pipe had become ready when it held that
	if chunk, err := out.Read(); err != nil || len(chunk.Data) != turn {
		t.Fatalf("read %d bytes, %v", len(chunk.Data), err)
	}
	fill()
	for read := turn; read < total; {
		if err := out.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		chunk, err := out.Read()
		if err != nil {
			t.Fatalf("after %d of %d bytes: %v", read, total, err)
		}
		read += len(chunk.Data)
	}
}

// Two busy pipes take turns.
func TestBusyPipesTakeTurns(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	for i, w := range []int{stdout, stderr} {
		s := out.sources[i]
		if err := out.watch(s, unix.EPOLL_CTL_MOD, false); err != nil || !s.enlarge() {
			t.Fatal(err, "it is not large")
		}
		s.pace.wait = time.Millisecond
		put(t, w, strings.Repeat("x", 500<<10))
		out.push(s)
	}
	left := map[string]int{protocol.StreamStdout: 500 << 10, protocol.StreamStderr: 500 << 10}
	for left[protocol.StreamStdout]+left[protocol.StreamStderr] > 0 {
		chunk, err := out.Read()
		if err != nil {
			t.Fatal(err)
		}
		left[chunk.Stream] -= len(chunk.Data)
	}
	// Both are empty, and watched again.
	for wait := time.Millisecond; !out.sources[0].watched || !out.sources[1].watched; wait *= 2 {
		if wait > time.Minute {
			t.Fatal("they are read without a pause")
		}
		if err := out.SetDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		if chunk, err := out.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %q, %v", chunk.Data, err)
		}
	}
	if err := out.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	put(t, stderr, "last")
	wantChunks(t, out, "stderr last")
}

func TestOrderedOutputEnds(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	put(t, stdout, "a")
	if err := unix.Close(stdout); err != nil {
		t.Fatal(err)
	}
	wantChunks(t, out, "stdout a")
	put(t, stderr, "b")
	wantChunks(t, out, "stderr b")
	put(t, stderr, "c")
	if err := unix.Close(stderr); err != nil {
		t.Fatal(err)
	}
	wantChunks(t, out, "stderr c")
	for range 2 {
		if chunk, err := out.Read(); err != io.EOF || len(chunk.Data) != 0 {
			t.Errorf("at the end: %q, %v", chunk.Data, err)
		}
	}
}

func TestOrderedOutputDeadline(t *testing.T) {
	out, stdout, _ := outputPair(t)
	read := make(chan error, 1)
	go func() {
		_, err := out.Read()
		read <- err
	}()
	if err := out.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read that waited: %v", err)
	}
	put(t, stdout, "a")
	if chunk, err := out.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %q, %v", chunk.Data, err)
	}
	if err := out.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantChunks(t, out, "stdout a")
}

func TestOrderedOutputClose(t *testing.T) {
	out, stdout, stderr := outputPair(t)
	if !out.sources[0].enlarge() {
		t.Fatal("it is not large")
	}
	read := make(chan error, 1)
	go func() {
		_, err := out.Read()
		read <- err
	}()
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, os.ErrClosed) {
		t.Errorf("read that waited: %v", err)
	}
	for _, w := range []int{stdout, stderr} {
		if _, err := unix.Write(w, []byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("somebody has the pipe open still: %v", err)
		}
	}
	_, after := out.Read()
	for i, err := range []error{after, out.SetDeadline(time.Time{}), out.Close()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
	if _, exact := out.Buffered(); exact {
		t.Error("what a closed pipe holds is known")
	}
	if n := largePipes.Load(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}
