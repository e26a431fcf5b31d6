package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

var (
	errAuthorization = errors.New("the authorization is too long or not UTF-8")
	errInvalid       = errors.New("the registry does not know the harness's authorization")
	errGuarded       = errors.New("too many handshakes have failed lately, and the key is not known")
	errUnanswered    = errors.New("the registry does not answer")
)

// reasonEvicted is for a stream that made room for another.
const reasonEvicted = "evicted"

// handshake begins one for a stream that is not known, in a goroutine of its own: it
// takes a good deal of arithmetic and a question to the registry.
func (s *socket) handshake(ctx context.Context, f *relayv1.RelayMessageFrame, message []byte) {
	ctx, cancel := context.WithCancelCause(ctx)
	e, evicted := s.x.table.begin(s, f.GetStreamId(), frame.ProfileOf(f), cancel)
	if e == nil {
		cancel(nil)
		s.log.Debug("handshake refused: too many, or too many failed", "stream", f.GetStreamId())
		s.reset(f.GetStreamId(), frame.ReasonUnavailable)
		return
	}
	s.handshakes.Go(func() {
		defer cancel(nil)
		if evicted != nil {
			s.log.Warn("too many streams: one whose harness is silent ends", "stream", evicted.Info().ID)
			evicted.Reset(reasonEvicted)
		}
		kept := s.admit(ctx, e, message)
		s.x.table.handshakeOver(kept)
	})
}

// admit takes a handshake to its end and reports whether there is a stream now.
func (s *socket) admit(ctx context.Context, e *entry, message []byte) bool {
	responder, err := seal.NewResponder(s.x.cfg.Identity, s.prologue(e))
	if err != nil {
		return s.refuse(e, nil, err)
	}
	peer, err := s.examine(ctx, e, responder, message)
	if err != nil {
		if rejected(err) {
			return s.tell(e, peer, responder, err)
		}
		return s.refuse(e, peer, err)
	}
	return s.accept(ctx, e, peer, responder)
}

func (s *socket) prologue(e *entry) seal.Prologue {
	label := seal.LabelCodex
	if e.profile == frame.Reliable {
		label = seal.LabelReliable
	}
	return seal.Prologue{
		Label: label, EnvironmentID: s.x.cfg.EnvironmentID, RegistrationID: s.registration, StreamID: e.id,
	}
}

// examine finds out whether the harness may come in.
func (s *socket) examine(ctx context.Context, e *entry, r *seal.Responder, message []byte) (*seal.PublicKey, error) {
	peer, payload, err := r.ReadMessage1(message)
	if err != nil {
		return nil, err
	}
	if len(payload) > MaxAuthorization || !utf8.Valid(payload) {
		return peer, errAuthorization
	}
	if s.x.cfg.Authorize != nil {
		if err := s.x.cfg.Authorize(peer); err != nil {
			return peer, fmt.Errorf("not authorized here: %w", err)
		}
	} else if e.guarded && !s.x.table.knows(peer.Fingerprint()) {
		return peer, errGuarded
	}
	question := registry.ValidateRequest{
		ExecutorRegistrationID: s.registration, HarnessPublicKey: peer, HarnessKeyAuthorization: string(payload),
	}
	valid, err := s.x.cfg.Registry.Validate(ctx, s.x.cfg.EnvironmentID, e.id, question)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		// The registry has closed a new connection, as it does when there are too many. (For an
		// idle one the client has asked again.) If it had answered, the answer is no now.
		valid, err = s.x.cfg.Registry.Validate(ctx, s.x.cfg.EnvironmentID, e.id, question)
	}
	switch {
	case err != nil && !declined(err):
		err = fmt.Errorf("%w: %w", errUnanswered, err)
	case err != nil:
	case !valid:
		err = errInvalid
	default:
		s.x.table.know(peer.Fingerprint())
	}
	return peer, err
}

// rejected reports whether the registry does not take the executor's own credential,
// which alone is told the harness as what it is.
func rejected(err error) bool {
	e, ok := errors.AsType[*registry.StatusError](err)
	return ok && e.Status == http.StatusUnauthorized
}

// declined reports whether the registry has answered, and does not take the question.
func declined(err error) bool {
	e, ok := errors.AsType[*registry.StatusError](err)
	return ok && e.Status < http.StatusInternalServerError && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// refuse resets a handshake that failed. The relay charges the harness for it, unless
// the reason says that it is not at fault.
func (s *socket) refuse(e *entry, peer *seal.PublicKey, why error) bool {
	reason := frame.ReasonProtocolError
	if errors.Is(why, errGuarded) || errors.Is(why, errUnanswered) {
		reason = frame.ReasonUnavailable
	}
	if s.x.table.drop(s, e, why, !errors.Is(why, errGuarded)) {
		s.log.Warn("handshake failed", "stream", e.id, "peer", fingerprint(peer), "err", why)
		s.reset(e.id, reason)
	}
	return false
}

// tell ends a handshake with the refusal that the harness can believe. The stream does
// not exist afterwards, and no reset follows.
func (s *socket) tell(e *entry, peer *seal.PublicKey, r *seal.Responder, why error) bool {
	message, err := r.WriteRefusal()
	if err != nil {
		return s.refuse(e, peer, err)
	}
	if s.x.table.drop(s, e, why, true) {
		s.log.Error("handshake refused: the registry rejects the executor's credential", "stream", e.id, "err", why)
		s.send(control{frame: answer(e, message)})
	}
	return false
}

// accept makes the stream, and then tells the harness, whose first record may come in
// the same moment.
func (s *socket) accept(ctx context.Context, e *entry, peer *seal.PublicKey, r *seal.Responder) bool {
	message, transport, err := r.WriteMessage2()
	if err != nil {
		return s.refuse(e, peer, err)
	}
	ended := make(chan struct{})
	ok := s.x.table.install(s, e, func() *relay.Stream {
		s.x.serving.Add(1) // before the table is closed, and so before anybody waits
		return relay.NewStream(relay.StreamConfig{
			ID: e.id, Profile: e.profile, Transport: transport, Carrier: s.carrier, Life: s.x.cfg.StreamLife,
			OnSilent: func() { s.x.table.silent(e) },
			OnEnd: func(err error) {
				s.x.table.remove(e)
				s.log.Info("stream ended", "stream", e.id, "instance", e.instance, "err", err)
				close(ended)
			},
			Trace: s.x.cfg.Trace, Logger: s.x.cfg.Logger, Rand: s.x.newRand(),
		})
	})
	if !ok {
		return false
	}
	info := StreamInfo{ID: e.id, Instance: e.instance, Profile: e.profile, Peer: peer}
	if err := s.sendAndWait(ctx, answer(e, message)); err != nil {
		// The harness was never told; nobody can say anything in this stream.
		_ = e.stream.Close()
	} else {
		s.log.Info("stream opened", "stream", info)
	}
	go func() { // Run waits for it
		defer s.x.serving.Done()
		defer s.x.table.release(e)
		s.x.serveStream(e.stream, info)
		<-ended
	}()
	return true
}

// answer is the frame of a message of ours.
func answer(e *entry, message []byte) *relayv1.RelayMessageFrame {
	f := &relayv1.RelayMessageFrame{
		Version: frame.Version, StreamId: e.id, Profile: e.profile.Field(),
		Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: message}},
	}
	if e.profile == frame.Reliable {
		window := arq.Greeting().Window
		f.Window = &window
	}
	return f
}

// fingerprint is how logs name a key that may not be known.
func fingerprint(key *seal.PublicKey) string {
	if key == nil {
		return "unknown"
	}
	return key.String()
}
