package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A handshake makes a stream of a fresh socket, of which nobody else reads.
type handshake struct {
	h       *Harness
	resp    *registry.ConnectResponse
	profile frame.Profile
	id      string
	carrier relay.Carrier

	// Of prepare.
	initiator *seal.Initiator
	message1  []byte
	err       error
}

func (h *Harness) newHandshake(resp *registry.ConnectResponse) *handshake {
	return &handshake{h: h, resp: resp, profile: h.profile(resp.RelayProfiles), id: newStreamID()}
}

// prepare makes message 1, with the authorization in it. It returns a channel that is
// closed when that is done, which must be waited for.
func (s *handshake) prepare() <-chan struct{} {
	done := make(chan struct{})
	go func() { // a millisecond of arithmetic
		defer close(done)
		label := seal.LabelCodex
		if s.profile == frame.Reliable {
			label = seal.LabelReliable
		}
		s.initiator, s.err = seal.NewInitiator(s.h.cfg.Identity, s.resp.ExecutorPublicKey, seal.Prologue{
			Label: label, EnvironmentID: s.h.cfg.EnvironmentID, RegistrationID: s.resp.ExecutorRegistrationID, StreamID: s.id,
		})
		if s.err == nil {
			s.message1, s.err = s.initiator.WriteMessage1([]byte(s.resp.HarnessKeyAuthorization))
		}
	}()
	return done
}

// run sends the resume that binds the stream to the socket, then message 1, and waits
// for message 2.
func (s *handshake) run(ctx context.Context, carrier relay.Carrier) (*seal.Transport, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.carrier = carrier
	ctx, cancel := context.WithTimeoutCause(ctx, HandshakeTimeout,
		fmt.Errorf("the executor did not answer within %s: %w", HandshakeTimeout, context.DeadlineExceeded))
	defer cancel()
	transport, err := s.exchange(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return transport, err
}

func (s *handshake) exchange(ctx context.Context) (*seal.Transport, error) {
	graves := s.h.buried()
	if err := s.mourn(ctx, graves); err != nil {
		return nil, err
	}
	resume, hello := s.frame(), s.frame()
	resume.Body = &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}
	hello.Body = &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: s.message1}}
	for _, f := range []*relayv1.RelayMessageFrame{resume, hello} {
		if err := s.send(ctx, f); err != nil {
			return nil, err
		}
	}
	message2, err := s.receive(ctx)
	if err != nil {
		return nil, err
	}
	// The executor has read what came before message 1.
	s.h.forget(graves)
	transport, err := s.initiator.ReadMessage2(message2)
	if errors.Is(err, seal.ErrRefused) {
		return nil, ErrRejected
	}
	return transport, err
}

// frame is what all frames of the handshake have.
func (s *handshake) frame() *relayv1.RelayMessageFrame {
	f := &relayv1.RelayMessageFrame{Version: frame.Version, StreamId: s.id, Profile: s.profile.Field()}
	if s.profile == frame.Reliable {
		window := arq.Greeting().Window
		f.Window = &window
	}
	return f
}

func (s *handshake) send(ctx context.Context, f *relayv1.RelayMessageFrame) error {
	message, err := frame.Append(nil, f)
	if err != nil {
		return err
	}
	s.h.trace(relay.Out, f)
	return s.carrier.Write(ctx, message)
}

// receive returns message 2.
func (s *handshake) receive(ctx context.Context) ([]byte, error) {
	for {
		message, err := s.carrier.Read(ctx)
		if err != nil {
			return nil, err
		}
		f, err := decode(message, s.id)
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue
		}
		s.h.trace(relay.In, f)
		switch body := f.GetBody().(type) {
		case *relayv1.RelayMessageFrame_Handshake:
			if granted := frame.ProfileOf(f); granted != s.profile {
				return nil, &ProfileError{Asked: s.profile, Granted: granted}
			}
			return body.Handshake.GetPayload(), nil
		case *relayv1.RelayMessageFrame_Reset_:
			return nil, &ResetError{Reason: relay.Clip(body.Reset_.GetReason())}
		case *relayv1.RelayMessageFrame_Data:
			return nil, errors.New("data came before the handshake was over")
		}
		// What is left says nothing before there is a stream.
	}
}
