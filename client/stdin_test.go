package client

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// The end that a write has caused may be told before the write is answered.
func TestWriteAnsweredAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodProcessWrite {
				return false
			}
			send(proc.exit(0), proc.end())
			go func() { // ends with the sleep
				time.Sleep(answerDelay / 2)
				req.Reply(&protocol.WriteResult{Status: protocol.WriteAccepted}, nil)
			}()
			return true
		}
		if n, err := p.Stdin.Write([]byte("last words")); n != 10 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := p.Stdin.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A server that does not answer any more does not keep a writer.
func TestWriteNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		c := s.open(t, nil)
		p, proc := start(t, s, c)
		s.answer = func(_ *fakeConn, req *rpc.Request) bool {
			if req.Method != protocol.MethodProcessWrite {
				return false
			}
			send(proc.exit(0), proc.end())
			return true
		}
		begin := time.Now()
		if _, err := p.Stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		if took := time.Since(begin); took != answerDelay {
			t.Errorf("it took %v", took)
		}
	})
}
