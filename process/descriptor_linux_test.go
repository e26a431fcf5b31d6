package process

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// awayPipe is an outputPipe that the poller does not have.
func awayPipe(t *testing.T) (*fileOutput, int) {
	t.Helper()
	out, w := outputPipe(t)
	out.from.leave()
	if out.from.file != nil {
		t.Fatal("it has not left")
	}
	return out, w
}

// A busy pipe leaves the poller, whether it may become large or not, and comes back when
// there is nothing to read.
func TestBusyPipeLeaves(t *testing.T) {
	for _, size := range []int{busyPipeBytes, 256 << 10, 0} {
		synctest.Test(t, func(t *testing.T) { // whose time does not pass while a busy machine does something else
			out, w := outputPipe(t)
			out.busy = size
			block := strings.Repeat("x", 32<<10)
			for range 4 * paceReads {
				put(t, w, block)
				if data, err := readData(out); err != nil || string(data) != block {
					t.Fatalf("read %d bytes, %v", len(data), err)
				}
			}
			if out.from.file != nil || out.large.Load() != (size > 0) {
				t.Errorf("%d bytes: the poller has it: %v; it is large: %v", size, out.from.file != nil, out.large.Load())
			}
			var now int
			if err := out.from.control(func(fd uintptr) { now, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); err != nil || now != cmp.Or(size, 64<<10) {
				t.Errorf("it holds %d bytes, %v; it may grow to %d", now, err, size)
			}
			read := make(chan string, 1)
			go func() {
				data, err := readData(out)
				read <- string(data) + errText(err)
			}()
			put(t, w, "later")
			if got := <-read; got != "later" {
				t.Errorf("read %q", got)
			}
		})
	}
}

// Away from the poller a pipe is read, waited for, ends and closes as any other.
func TestAway(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		out, w := awayPipe(t)
		put(t, w, "a")
		if err := out.SetDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if data, err := readData(out); !errors.Is(err, os.ErrDeadlineExceeded) || len(data) != 0 {
			t.Errorf("after the deadline: %q, %v", data, err)
		}
		if err := out.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if n, exact := out.Buffered(); n != 1 || !exact {
			t.Errorf("%d bytes are buffered, exact %v", n, exact)
		}
		if data, err := readData(out); err != nil || string(data) != "a" || out.from.file != nil {
			t.Errorf("read %q, %v; the poller has it: %v", data, err, out.from.file != nil)
		}
		// Whoever waits gives it to the poller, which knows of the deadline. On a busy
		// machine that may have passed before anybody waits.
		for wait := time.Millisecond; out.from.file == nil; wait *= 2 {
			if err := out.SetDeadline(time.Now().Add(wait)); err != nil {
				t.Fatal(err)
			}
			if data, err := readData(out); !errors.Is(err, os.ErrDeadlineExceeded) || len(data) != 0 {
				t.Fatalf("at the deadline: %q, %v", data, err)
			}
		}
	})
	t.Run("deadline of a read that waits", func(t *testing.T) {
		out, _ := awayPipe(t)
		read := aside(out)
		if err := out.SetDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("end", func(t *testing.T) {
		out, w := awayPipe(t)
		put(t, w, "a")
		if err := unix.Close(w); err != nil {
			t.Fatal(err)
		}
		if data, err := readData(out); err != nil || string(data) != "a" {
			t.Errorf("read %q, %v", data, err)
		}
		for range 2 {
			if _, err := readData(out); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		}
	})
	t.Run("close", func(t *testing.T) {
		out, w := awayPipe(t)
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(w, []byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("somebody has the pipe open still: %v", err)
		}
		_, read := readData(out)
		for i, err := range []error{read, out.SetDeadline(time.Time{}), out.Close()} {
			if !errors.Is(err, os.ErrClosed) {
				t.Errorf("call %d after Close: %v", i, err)
			}
		}
		if _, exact := out.Buffered(); exact {
			t.Error("what a closed pipe holds is known")
		}
		out.from.leave()
	})
}
