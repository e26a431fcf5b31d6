package process

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

// outputPipe is a pipe as a child has it: its writing end blocks.
func outputPipe(t *testing.T) (*fileOutput, int) {
	t.Helper()
	r, w, err := openPipe(true)
	if err != nil {
		t.Fatal(err)
	}
	out, err := newFileOutput(protocol.StreamStdout, os.NewFile(uintptr(r), protocol.StreamStdout), true, busyPipeBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = out.Close()
		_ = unix.Close(w) // closed by the test, as a rule
	})
	return out, w
}

// readData returns the data of the next chunk.
func readData(out Output) ([]byte, error) {
	chunk, err := out.Read()
	return chunk.Data, err
}

func put(t *testing.T, fd int, data string) {
	t.Helper()
	if n, err := unix.Write(fd, []byte(data)); err != nil || n != len(data) {
		t.Fatalf("wrote %d bytes: %v", n, err)
	}
}

func TestFileOutput(t *testing.T) {
	out, w := outputPipe(t)
	put(t, w, "ab")
	put(t, w, "c")
	if n, exact := out.Buffered(); n != 3 || !exact {
		t.Errorf("%d bytes are buffered, exact %v", n, exact)
	}
	if err := out.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if data, err := readData(out); !errors.Is(err, os.ErrDeadlineExceeded) || len(data) != 0 {
		t.Errorf("after the deadline: %q, %v", data, err)
	}
	if err := out.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	data, err := readData(out)
	if err != nil || string(data) != "abc" || cap(data) > 64 {
		t.Errorf("read %q with room for %d, %v", data, cap(data), err)
	}
	later := make(chan string, 1)
	go func() {
		data, err := readData(out)
		later <- string(data) + " " + errText(err)
	}()
	put(t, w, "d")
	if got := <-later; got != "d " {
		t.Errorf("read %q", got)
	}
	if err := unix.Close(w); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if data, err := readData(out); err != io.EOF || len(data) != 0 {
			t.Errorf("at the end: %q, %v", data, err)
		}
	}
}

// A terminal tells what can be read, which may be less than what was printed.
func TestTerminalBuffered(t *testing.T) {
	master, slave, err := openTerminal(Size{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(slave)
	out, err := newFileOutput(protocol.StreamPTY, master, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	put(t, slave, "ab")
	for n := 0; n < 2; {
		var exact bool
		if n, exact = out.Buffered(); n > 2 || exact {
			t.Fatalf("%d bytes are buffered, exact %v", n, exact)
		}
	}
	if data, err := readData(out); err != nil || string(data) != "ab" {
		t.Errorf("read %q, %v", data, err)
	}
	if n, exact := out.Buffered(); n != 0 || exact {
		t.Errorf("%d bytes are left, exact %v", n, exact)
	}
}

// aside reads while the test goes on, and tells the error.
func aside(out *fileOutput) <-chan error {
	read := make(chan error, 1)
	go func() {
		_, err := readData(out)
		read <- err
	}()
	return read
}

func TestFileOutputClose(t *testing.T) {
	for name, pipe := range map[string]func(*testing.T) (*fileOutput, int){"watched": outputPipe, "away": awayPipe} {
		t.Run(name, func(t *testing.T) {
			out, _ := pipe(t)
			read := aside(out)
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-read; !errors.Is(err, os.ErrClosed) {
				t.Errorf("read that waited: %v", err)
			}
			if _, exact := out.Buffered(); exact {
				t.Error("what a closed pipe holds is known")
			}
		})
	}
}

// TestLargePipes: only so many are large at a time, and a closed one makes room.
func TestLargePipes(t *testing.T) {
	var outs []*fileOutput
	for i := range maxLargePipes + 1 {
		out, _ := outputPipe(t)
		outs = append(outs, out)
		if got, want := out.enlarge(), i < maxLargePipes; got != want {
			t.Errorf("pipe %d: large is %v", i, got)
		}
	}
	if !outs[0].enlarge() {
		t.Error("a large pipe is not large any more")
	}
	for range 2 {
		_ = outs[0].Close()
	}
	last := outs[maxLargePipes]
	if !last.enlarge() {
		t.Error("a closed pipe has kept its place")
	}
	var size int
	if err := last.from.control(func(fd uintptr) { size, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); err != nil || size != busyPipeBytes {
		t.Errorf("it holds %d bytes, %v", size, err)
	}
	for _, out := range outs {
		_ = out.Close()
	}
	if n := largePipes.Load(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
