package client

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

func TestProcessLog(t *testing.T) {
	failure := "interrupted: the server ended"
	code := 3
	chunks := []protocol.OutputChunk{{Seq: 4, Stream: "stdout", Chunk: []byte("a")}, {Seq: 5, Stream: "pty", Chunk: []byte("b")}, {Seq: 7, Stream: "stderr", Chunk: []byte("c")}}
	answer := func(p *protocol.ReadParams) (*protocol.ReadResult, error) {
		r := &protocol.ReadResult{NextSeq: 10, Exited: true, Closed: true, ExitCode: &code, Signal: "SIGTERM"}
		switch p.ProcessID {
		case "unknown":
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "unknown process id unknown")
		case "interrupted":
			r.ExitCode, r.Failure = nil, &failure
		case "running":
			r.Exited, r.Closed = false, false
		}
		for _, c := range chunks {
			if c.Seq > *p.AfterSeq {
				r.Chunks = append(r.Chunks, c)
				break // one at a time, as a small MaxBytes gives them
			}
		}
		return r, nil
	}
	s := newFake(t)
	s.caps = []string{protocol.CapDurableLog}
	s.answer = func(_ *fakeConn, req *rpc.Request) bool {
		if req.Method != protocol.MethodProcessRead {
			return false
		}
		p := decode[protocol.ReadParams](req.Params)
		r, err := answer(&p)
		req.ReplyInline(r, err)
		return true
	}
	c := s.open(t, nil)
	for _, tt := range []struct {
		id    string
		after uint64
		want  string
		err   string
	}{
		{"p", 0, "4 stdout a,5 pty b,7 stderr c,", ""},
		{"p", 5, "7 stderr c,", ""},
		{"p", 99, "", ""},
		{"unknown", 0, "", "unknown process: unknown process id unknown"},
		{"interrupted", 0, "4 stdout a,5 pty b,7 stderr c,", failure},
		{"running", 5, "7 stderr c,", "process running has not ended"},
	} {
		var got strings.Builder
		status, err := c.ProcessLog(t.Context(), tt.id, tt.after, func(o Output) error {
			fmt.Fprintf(&got, "%d %s %s,", o.Seq, o.Stream, o.Data)
			return nil
		})
		if got.String() != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s after %d: %q, %v", tt.id, tt.after, got.String(), err)
		}
		if err == nil && (status.Code != 3 || status.Signal != "SIGTERM") {
			t.Errorf("%s: %+v", tt.id, status)
		}
	}
	mine := errors.New("the disk is full")
	if _, err := c.ProcessLog(t.Context(), "p", 0, func(Output) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("fn fails: %v", err)
	}
	plain := newFake(t).open(t, nil)
	if _, err := plain.ProcessLog(t.Context(), "p", 0, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a server without: %v", err)
	}
}
