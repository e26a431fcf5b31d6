package harness

import (
	"context"
	"slices"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// A grave is a stream of the reliable profile that ended here while the executor may
// believe that it goes on: the harness lacked a socket to say so, or heard of its end
// from somebody in between. There it would live on, and keep its session from being
// resumed. So the next socket says first that it has ended.
type grave struct {
	id    string
	epoch uint32
}

// bury remembers that a stream has ended.
func (h *Harness) bury(g grave) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.graves) == maxGraves {
		h.graves = h.graves[1:]
	}
	h.graves = append(h.graves, g)
}

func (h *Harness) buried() []grave {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.graves)
}

// forget drops what the executor has been told.
func (h *Harness) forget(told []grave) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.graves = slices.DeleteFunc(h.graves, func(g grave) bool { return slices.Contains(told, g) })
}

// mourn tells the executor. A resume binds the stream to the socket, or the relay would
// drop its reset.
func (s *handshake) mourn(ctx context.Context, graves []grave) error {
	for _, g := range graves {
		for _, body := range []*relayv1.RelayMessageFrame{
			{Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}},
			{Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: relay.ReasonClosed}}},
		} {
			body.Version, body.StreamId, body.Epoch, body.Profile = frame.Version, g.id, g.epoch, frame.Reliable.Field()
			if err := s.send(ctx, body); err != nil {
				return err
			}
		}
	}
	return nil
}
