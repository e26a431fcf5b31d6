package relay_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// A trace, and the log, tell of every frame and never what is in it: no plaintext, no
// record, no handshake, whatever happens to the stream.
func TestTraceHasNoContents(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		var (
			mu     sync.Mutex
			events []relay.TraceEvent
			log    bytes.Buffer
			wire   [][]byte // what carriers saw of records
		)
		sniff := data(func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery {
			mu.Lock()
			defer mu.Unlock()
			wire = append(wire, bytes.Clone(m.GetData().GetPayload()))
			return simnet.Pass(raw)
		})
		path := simnet.CarrierConfig{Forth: sniff}
		l := newLine(t, p, path, path, func(cfg *relay.StreamConfig) {
			cfg.Trace = func(e relay.TraceEvent) { mu.Lock(); defer mu.Unlock(); events = append(events, e) }
			cfg.Logger = slog.New(slog.NewJSONHandler(&locked{mu: &mu, b: &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		marker := []byte("the secret that passes 0123456789")
		l.exchange(script{1, 5, 100_000}, script{2, 5, 1000})
		if err := l.a.Write(t.Context(), bytes.Repeat(marker, 5000)); err != nil {
			t.Fatal(err)
		}
		if msg, err := l.b.Read(t.Context()); err != nil || !bytes.Contains(msg, marker) {
			t.Fatal(err)
		}
		if p == frame.Reliable {
			l.a.cut()
			time.Sleep(time.Second)
			l.a.again()
			l.exchange(script{3, 5, 1000}, script{4, 5, 1000})
		}
		_ = l.b.CloseFault(rpc.CloseTooLarge, string(marker))
		<-l.a.Done()
		synctest.Wait()

		mu.Lock()
		defer mu.Unlock()
		out, err := json.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		text := append(append(out, log.Bytes()...), fmt.Sprintf("%+v", events)...)
		for name, secret := range map[string][]byte{"plaintext": marker[:12], "plaintext's middle": marker[10:22]} {
			contains(t, text, name, secret)
		}
		for _, record := range wire {
			contains(t, text, "a record", record[:min(12, len(record))])
			contains(t, text, "a record's tag", record[len(record)-12:])
		}
		kinds := make(map[string]bool)
		for _, e := range events {
			kinds[e.Kind] = true
			if e.Stream != "s" || e.Profile != string(p) || e.Time.IsZero() || e.Direction != relay.In && e.Direction != relay.Out {
				t.Fatalf("event %+v", e)
			}
			if e.Kind == "data" && (e.Bytes < 17 || e.Bytes > 61_456 || e.Count == 0) {
				t.Fatalf("event %+v", e)
			}
			if (e.Window != nil) != (p == frame.Reliable) {
				t.Fatalf("event %+v", e)
			}
		}
		if len(wire) == 0 || !kinds["data"] || !kinds["reset"] || p == frame.Reliable && !(kinds["ack"] && kinds["resume"]) {
			t.Errorf("%d records, and only %v", len(wire), kinds)
		}
	})
}

// contains fails if secret is in text, in any of the usual ways to write it.
func contains(t *testing.T, text []byte, name string, secret []byte) {
	t.Helper()
	decimal := fmt.Sprint(secret)
	for _, form := range []string{
		string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret),
		base64.RawURLEncoding.EncodeToString(secret), decimal[1 : len(decimal)-1],
	} {
		if bytes.Contains(text, []byte(form)) {
			t.Fatalf("the trace or the log contains %s as %q", name, form)
		}
	}
}

// locked is a writer behind a mutex.
type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// FrameEvent keeps nothing of its frame, which may be used again.
func TestFrameEventIsACopy(t *testing.T) {
	ack, window := uint32(7), uint32(300)
	f := &relayv1.RelayMessageFrame{
		Version: 1, StreamId: "s", Ack: &ack, Window: &window, Epoch: 2,
		Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: make([]byte, 99)}},
	}
	e := relay.FrameEvent(relay.In, f)
	ack, window = 0, 0
	if *e.Ack != 7 || *e.Window != 300 || e.Bytes != 99 || e.Kind != "handshake" || e.Epoch != 2 {
		t.Errorf("event %+v", e)
	}
}
