package atomicfile_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
)

// A pipe stands for the files of the kernel that wait for more, as root may need to be.
func TestReaderNeverWaits(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(ends[1]) }()
	if err := unix.SetNonblock(ends[0], true); err != nil {
		t.Fatal(err)
	}
	f := atomicfile.NewReader(ends[0], "pipe")
	defer f.Close()
	if _, err := unix.Write(ends[1], []byte("ab")); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		n   int
		err error
	}
	read := func() outcome {
		done := make(chan outcome, 1)
		go func() {
			n, err := f.Read(make([]byte, 8))
			done <- outcome{n, err}
		}()
		select {
		case o := <-done:
			return o
		case <-time.After(time.Minute):
			t.Fatal("the read waits")
			panic("unreachable")
		}
	}
	if o := read(); o.n != 2 || o.err != nil {
		t.Errorf("with something to read: %d, %v", o.n, o.err)
	}
	if o := read(); !errors.Is(o.err, unix.EAGAIN) {
		t.Errorf("with nothing to read: %d, %v", o.n, o.err)
	}
}
