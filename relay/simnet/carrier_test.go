package simnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	relayv1 "github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
	"github.com/wsd-dev/wsd/relay/frame"
)

func TestCarrier(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		a, b := Carriers(CarrierConfig{})
		return a, b
	})
}

func TestBetween(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		a, b := rpc.Pair()
		return Between(a, CarrierConfig{}), b
	})
}

// arrivals sends n numbered frames through f and returns what arrives.
func arrivals(t *testing.T, n int, f Filter) (got []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		trace := new(Trace)
		a, b := Carriers(CarrierConfig{Seed: 5, Forth: f, Trace: trace, Name: "link"})
		for i := range n {
			if err := a.Write(t.Context(), []byte(fmt.Sprintf("frame %03d", i))); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for {
			msg, err := b.Read(ctx)
			if err != nil {
				break
			}
			got = append(got, string(msg))
		}
		if trace.Total() < n || strings.Count(trace.String(), "link > ") != trace.Total() {
			t.Errorf("the trace:\n%s", trace)
		}
	})
	return got
}

func sent(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("frame %03d", i))
	}
	return all
}

func TestFaults(t *testing.T) {
	const n = 200
	if diff := cmp.Diff(sent(n), arrivals(t, n, Faults{}.Filter(1))); diff != "" {
		t.Errorf("without faults: %s", diff)
	}
	count := func(f Faults, is func(i int, all []string) bool) int {
		t.Helper()
		got := arrivals(t, n, f.Filter(1))
		if diff := cmp.Diff(got, arrivals(t, n, f.Filter(1))); diff != "" {
			t.Errorf("the same seed, another outcome: %s", diff)
		}
		c := 0
		for i := range got {
			if is(i, got) {
				c++
			}
		}
		return c
	}
	tests := []struct {
		name     string
		faults   Faults
		is       func(i int, all []string) bool
		min, max int
	}{
		{"Drop", Faults{Drop: 0.2}, func(int, []string) bool { return true }, 140, 180},
		{"Duplicate", Faults{Duplicate: 0.2}, func(int, []string) bool { return true }, 220, 260},
		{"Corrupt", Faults{Corrupt: 0.2}, func(i int, all []string) bool { return all[i] != sent(n)[i] && len(all[i]) == 9 }, 20, 60},
		{"Truncate", Faults{Truncate: 0.2}, func(i int, all []string) bool { return len(all[i]) < 9 }, 20, 60},
		{"Late", Faults{Late: 0.2}, func(i int, all []string) bool { return i > 0 && all[i] < all[i-1] }, 1, 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if c := count(tt.faults, tt.is); c < tt.min || c > tt.max {
				t.Errorf("%d of %d", c, n)
			}
		})
	}
}

func TestChain(t *testing.T) {
	twice := func(msg []byte) []Delivery { return []Delivery{{Frame: msg}, {Frame: msg, After: time.Second}} }
	second := 0
	dropSecond := func(msg []byte) []Delivery {
		if second++; second == 2 {
			return nil
		}
		return Pass(msg)
	}
	if diff := cmp.Diff([]string{"frame 000", "frame 001", "frame 001"}, arrivals(t, 2, Chain(twice, dropSecond))); diff != "" {
		t.Error(diff)
	}
}

func TestCarrierCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Carriers(CarrierConfig{})
		if err := a.Write(t.Context(), []byte("lost")); err != nil {
			t.Fatal(err)
		}
		a.Cut()
		for _, c := range []*Carrier{a, b} {
			if _, err := c.Read(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("read: %v", err)
			}
			if err := c.Write(t.Context(), []byte("x")); !errors.Is(err, rpc.ErrClosed) {
				t.Errorf("write: %v", err)
			}
		}
	})
}

// A writer waits when nobody reads, and a frame is never held by halves.
func TestCarrierBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Carriers(CarrierConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wrote := 0
		msg := make([]byte, 100_000)
		for a.Write(ctx, msg) == nil {
			wrote += len(msg)
		}
		if wrote < CarrierBytes || wrote > CarrierBytes+len(msg) {
			t.Errorf("wrote %d", wrote)
		}
		if _, err := b.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.Write(t.Context(), msg); err != nil {
			t.Error(err)
		}
	})
}

func TestInject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, server := rpc.Pair()
		end := Between(inner, CarrierConfig{Forth: func([]byte) []Delivery { return nil }})
		end.Inject([]byte("from the end"))
		if err := end.Write(t.Context(), []byte("swallowed")); err != nil {
			t.Fatal(err)
		}
		if msg, err := server.Read(t.Context()); string(msg) != "from the end" || err != nil {
			t.Errorf("%q, %v", msg, err)
		}
		end.Far.Inject([]byte("to the end"))
		if msg, err := end.Read(t.Context()); string(msg) != "to the end" || err != nil {
			t.Errorf("%q, %v", msg, err)
		}
		end.Close()
		if _, err := server.Read(t.Context()); err != io.EOF {
			t.Error(err)
		}
		end.Wait()
	})
}

// A trace says what frames are, and nothing of what they carry.
func TestTrace(t *testing.T) {
	window, ack := uint32(256), uint32(7)
	msg, err := frame.Append(nil, &relayv1.RelayMessageFrame{
		Version: 1, StreamId: "0123456789abcdef", Ack: &ack, AckBits: 5, Window: &window, Epoch: 2,
		Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: 9, SegmentIndex: 1, SegmentCount: 3, Payload: []byte("secret-payload")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`data "01234567" %d bytes seq=9 1/3 ack=7+5 window=256 epoch=2`, len(msg))
	if got := Describe(msg); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Describe([]byte("junk")); got != "undecodable 4 bytes" {
		t.Error(got)
	}
	trace := new(Trace)
	for i := range TraceEvents + 10 {
		trace.Note("event %d", i)
	}
	text := trace.String()
	if strings.Count(text, "\n") != TraceEvents+1 || !strings.HasPrefix(text, "(10 events before these)\n") {
		t.Errorf("kept %d lines", strings.Count(text, "\n"))
	}
	if !strings.Contains(text, "event 10\n") || strings.Contains(text, "event 9\n") {
		t.Error("kept the wrong ones")
	}
	(*Trace)(nil).Note("nothing")
	if bytes.Contains([]byte(text), []byte("secret")) {
		t.Error("contents")
	}
}

func TestWatched(t *testing.T) {
	rpctest.TestConnection(t, func(t *testing.T) (rpc.Connection, rpc.Connection) {
		a, b := rpc.Pair()
		return Watched(a, nil, ""), b
	})
	trace := new(Trace)
	a, b := rpc.Pair()
	w := Watched(a, trace, "end")
	defer w.Close()
	if err := w.Write(t.Context(), []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), []byte("123")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"end > undecodable 5 bytes\n", "end < undecodable 3 bytes\n"} {
		if !strings.Contains(trace.String(), line) {
			t.Errorf("no %q in\n%s", line, trace)
		}
	}
}
