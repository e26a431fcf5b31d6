package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// slowly answers requests; a slow one hands off and is answered when it is let go.
type slowly struct{ release chan struct{} }

func (s slowly) HandleRequest(_ context.Context, req *rpc.Request) {
	if req.Method == "slow" {
		req.HandOff()
		<-s.release
	}
	req.ReplyInline(req.Method, nil)
}

func (slowly) HandleNotification(context.Context, string, []byte) error { return nil }

// ask sends a request; answered says that its answer is the next message.
func ask(t *testing.T, s *relay.Stream, method string) {
	t.Helper()
	if err := s.Write(t.Context(), []byte(`{"id":1,"method":"`+method+`"}`)); err != nil {
		t.Fatal(err)
	}
}

func answered(t *testing.T, s *relay.Stream, method string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	msg, err := s.Read(ctx)
	if want := `{"id":1,"result":"` + method + `"}`; err != nil || string(msg) != want {
		t.Fatalf("got %s, %v; want %s", msg, err, want)
	}
}

// What is slow to answer a message holds up neither other streams, nor its own, nor the
// next connection.
func TestSlowHandlerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		handler := slowly{make(chan struct{})}
		cfg := w.config()
		cfg.Serve = func(ctx context.Context, conn rpc.Connection, _ StreamInfo) {
			p := rpc.NewPeer(conn, rpc.PeerConfig{Handler: handler})
			_ = p.Serve(ctx)
			_ = p.Close()
		}
		stop := w.run(cfg)
		p := w.peer()
		a, b := p.open("a", frame.Reliable), p.open("b", frame.Reliable)
		codex := p.open("codex", frame.Codex)
		for range 3 {
			ask(t, a, "slow")
			ask(t, codex, "slow")
			for _, s := range []*relay.Stream{b, a, codex} {
				ask(t, s, "fast")
				answered(t, s, "fast")
			}
		}
		p.carrier.Cut()
		next := w.peer()
		for id, s := range map[string]*relay.Stream{"a": a, "b": b} {
			p.move(id, s, next)
			ask(t, s, "fast")
			answered(t, s, "fast")
		}
		close(handler.release)
		for range 3 {
			answered(t, a, "slow")
		}
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
