package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// fakeHistory serves history/* by two functions.
func fakeHistory(t *testing.T, list func(*protocol.HistoryParams) *protocol.HistoryResult, read func(*protocol.HistoryReadParams) *protocol.HistoryReadResult) *Client {
	t.Helper()
	s := newFake(t)
	s.caps = []string{protocol.CapHistory}
	s.answer = func(_ *fakeConn, req *rpc.Request) bool {
		switch req.Method {
		case protocol.MethodHistoryList:
			p := decode[protocol.HistoryParams](req.Params)
			req.ReplyInline(list(&p), nil)
		case protocol.MethodHistoryRead:
			p := decode[protocol.HistoryReadParams](req.Params)
			req.ReplyInline(read(&p), nil)
		default:
			return false
		}
		return true
	}
	return s.open(t, nil)
}

// A server with another history than before is not taken for the same.
func TestAwaitHistory(t *testing.T) {
	c := fakeHistory(t, func(p *protocol.HistoryParams) *protocol.HistoryResult {
		if p.WaitMs == nil || *p.WaitMs == 0 {
			t.Error("it does not wait")
		}
		return &protocol.HistoryResult{LastEnd: 5}
	}, nil)
	for after, want := range map[int64]bool{4: true, 5: true, 6: false} {
		if r, err := c.AwaitHistory(t.Context(), protocol.HistoryParams{}, after); (err == nil) != want {
			t.Errorf("after %d: %+v, %v", after, r, err)
		}
	}
}

// ReadHistory goes on behind events that are missing.
func TestReadHistory(t *testing.T) {
	answers := map[uint64]*protocol.HistoryReadResult{
		0: {Missing: &protocol.MissingEvents{From: 1, To: new(uint64(3))}, Chunks: []protocol.OutputChunk{{Seq: 4}, {Seq: 5}}},
		5: {Missing: &protocol.MissingEvents{From: 6, To: new(uint64(9))}},
		9: {Missing: &protocol.MissingEvents{From: 10}, Ended: true, Command: protocol.HistoryCommand{Number: 7}},
	}
	c := fakeHistory(t, nil, func(p *protocol.HistoryReadParams) *protocol.HistoryReadResult {
		if r := answers[*p.AfterSeq]; r != nil {
			return r
		}
		t.Errorf("it reads after %d", *p.AfterSeq)
		return &protocol.HistoryReadResult{Ended: true}
	})
	for _, follow := range []bool{false, true} {
		var got strings.Builder
		last, err := c.ReadHistory(t.Context(), 7, 0, follow, func(r *protocol.HistoryReadResult) error {
			fmt.Fprint(&got, r.Missing.From, " ", len(r.Chunks), ", ")
			return nil
		})
		if err != nil || last.Number != 7 || got.String() != "1 2, 6 0, 10 0, " {
			t.Errorf("%q, %+v, %v", &got, last, err)
		}
	}
}
