package relaytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	relayv1 "github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// heap is what the program keeps, in bytes.
func heap() int64 {
	var stats runtime.MemStats
	for range 3 { // what the first leaves to finalizers and pools, the others take
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// junkHandshake is a handshake that costs the executor as much as one can: it has the
// right length.
func junkHandshake(id string, r *rand.Rand) []byte {
	payload := make([]byte, seal.Message1Overhead+100)
	random(payload, r)
	return encode(&relayv1.RelayMessageFrame{
		Version: frame.Version, StreamId: id, Profile: string(frame.Reliable),
		Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: payload}},
	})
}

// floods are frames for streams that there are not.
var floods = map[string]func(id string, i int, r *rand.Rand) []byte{
	"Handshakes": func(id string, _ int, r *rand.Rand) []byte { return junkHandshake(id, r) },
	"Data": func(id string, i int, _ *rand.Rand) []byte {
		return encode(&relayv1.RelayMessageFrame{
			Version: frame.Version, StreamId: id,
			Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: uint32(i), SegmentCount: 1, Payload: make([]byte, 1000)}},
		})
	},
	"Resumes": func(id string, i int, _ *rand.Rand) []byte {
		return encode(&relayv1.RelayMessageFrame{
			Version: frame.Version, StreamId: id, Profile: string(frame.Reliable), Epoch: 1,
			Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{NextSeq: uint32(i)}},
		})
	},
	"Resets": func(id string, _ int, _ *rand.Rand) []byte {
		return encode(&relayv1.RelayMessageFrame{
			Version: frame.Version, StreamId: id,
			Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "flood"}},
		})
	},
	"LongIDs": func(id string, i int, _ *rand.Rand) []byte {
		return encode(&relayv1.RelayMessageFrame{
			Version: frame.Version, StreamId: fmt.Sprintf("%s%0*d", id, frame.MaxStreamIDBytes-len(id), i),
			Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}},
		})
	},
}

// floodFrames is how many frames a flood has.
func floodFrames() int {
	if raceEnabled {
		return 2000
	}
	return 10_000
}

// Ten thousand frames of what never began: the streams that there are go on meanwhile,
// the executor keeps nothing of it, and lets others in afterwards.
func TestFlood(t *testing.T) {
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testFlood(t, flood) })
		})
	}
}

func testFlood(t *testing.T, flood func(id string, i int, r *rand.Rand) []byte) {
	frames, step := floodFrames(), 500
	m := newMiddle(t, 21)
	m.trace = nil // it would be what grows
	r := rand.New(rand.NewPCG(3, 3))
	stop := m.runExecutor()
	defer stop()
	witness := m.connect(m.harness("witness", frame.Reliable, nil, nil))
	defer witness.conn.Close()
	var half int64
	goroutines := 0
	for i := range frames {
		m.toExecutor(flood(fmt.Sprintf("flood-%d", i), i, r))
		if (i+1)%step != 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := witness.exchange(ctx, 3); err != nil {
			t.Fatalf("after frame %d the witness: %v", i, err)
		}
		cancel()
		synctest.Wait()
		if i+1 == frames/2 {
			half, goroutines = heap(), runtime.NumGoroutine()
		}
	}
	if grown := heap() - half; grown > 1<<20 {
		t.Errorf("memory is not flat: it grew by %d bytes in the second half", grown)
	} else {
		t.Logf("memory grew by %d bytes in the second half", grown)
	}
	if grown := runtime.NumGoroutine() - goroutines; grown > 2 {
		t.Errorf("%d goroutines more than at half time", grown)
	}
	time.Sleep(executor.MaxFailures * executor.ForgiveTime)
	late := m.connect(m.harness("late", frame.Reliable, nil, nil))
	defer late.conn.Close()
	if err := late.exchange(t.Context(), 5); err != nil {
		t.Errorf("a harness that comes after it: %v", err)
	}
}

// A harness with every right opens more streams than there may be: those over the
// limit are refused, the others are not disturbed, and room that is given back can be
// used again.
func TestStreamLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMiddle(t, 22)
		stop := m.runExecutor()
		defer stop()
		h := m.harness("greedy", frame.Reliable, nil, nil)
		var all []*conversation
		for range executor.MaxStreams {
			c := m.connect(h)
			c.most = 1000
			defer c.conn.Close()
			all = append(all, c)
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if conn, err := h.Connect(ctx); err == nil {
				conn.Close()
				t.Error("one stream too many")
			}
			cancel()
		}
		for i, c := range all {
			if err := c.exchange(t.Context(), 2); err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		}
		all[5].conn.Close()
		time.Sleep(time.Minute)
		again := m.connect(h)
		defer again.conn.Close()
		if err := again.exchange(t.Context(), 2); err != nil {
			t.Errorf("the one that took the place: %v", err)
		}
	})
}
