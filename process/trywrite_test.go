package process

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
)

// gladInput is a slowInput that takes some of each write at once.
type gladInput struct {
	*slowInput
	takes int
	err   error
	tried []string
}

func (g *gladInput) TryWrite(p []byte) (int, error) {
	g.tried = append(g.tried, string(p))
	return min(g.takes, len(p)), g.err
}

// A write that the child takes is over when put returns; the rest of one that it takes
// in part is written later, and what comes behind stays behind.
func TestStdinWritesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &gladInput{slowInput: newSlowInput(), takes: 3}
		s := newStdin(in)
		for range 2 {
			mustPut(t, s, "abc")
			if s.bytes != 0 || s.queue != nil || s.sender.Busy() {
				t.Fatalf("%d bytes are queued, writing %v", s.bytes, s.sender.Busy())
			}
			mustPut(t, s, "defgh")
			mustPut(t, s, "i")
			if _, err := s.putEOF(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				in.take <- nil
			}
			synctest.Wait()
		}
		if got := in.written(); got != "gh i EOF gh i EOF" {
			t.Errorf("written later: %s", got)
		}
		if len(in.tried) != 4 {
			t.Errorf("tried at once: %q", in.tried)
		}
		in.err = syscall.EIO
		mustPut(t, s, "x")
		if !s.deaf || s.sender.Busy() {
			t.Errorf("after a failure: deaf %v, writing %v", s.deaf, s.sender.Busy())
		}
		s.close()
	})
}

// It takes what there is room for and says so, waits for nothing, and knows a pipe that
// nobody reads.
func TestTryWrite(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	total, chunk := 0, make([]byte, 1<<20)
	n := -1
	for n != 0 {
		if n, err = tryWrite(w, chunk); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total < 4096 || total >= 1<<20 {
		t.Errorf("took %d bytes", total)
	}
	r.Close()
	if _, err := tryWrite(w, chunk); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("without a reader: %v", err)
	}
}
