package executor

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// A peer is the other end of one connection of an executor: the relay with all its
// harnesses, played frame by frame.
type peer struct {
	w       *world
	carrier *simnet.Carrier

	mu      sync.Mutex
	inbox   map[string][]*relayv1.RelayMessageFrame
	streams map[string]*relay.Stream
	arrived chan struct{}
	total   int
	gone    bool
}

func newPeer(w *world, carrier *simnet.Carrier) *peer {
	p := &peer{
		w: w, carrier: carrier, inbox: make(map[string][]*relayv1.RelayMessageFrame),
		streams: make(map[string]*relay.Stream), arrived: make(chan struct{}, 1),
	}
	w.t.Cleanup(func() { _ = carrier.Close() })
	go p.read()
	return p
}

// read sorts what the executor sends until the connection ends.
func (p *peer) read() {
	for {
		msg, err := p.carrier.Read(context.Background())
		if err != nil {
			p.mu.Lock()
			p.gone = true
			p.mu.Unlock()
			p.wake()
			return
		}
		f, err := frame.Decode(msg)
		if err != nil {
			p.w.t.Errorf("the executor sent an invalid frame: %v", err)
			continue
		}
		p.mu.Lock()
		p.total++
		s := p.streams[f.GetStreamId()]
		if s == nil {
			p.inbox[f.GetStreamId()] = append(p.inbox[f.GetStreamId()], f)
		}
		p.mu.Unlock()
		if s != nil {
			s.Handle(f, nil)
		} else {
			p.wake()
		}
	}
}

func (p *peer) wake() {
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// frame waits for the next frame of a stream that is none here yet.
func (p *peer) frame(id string) *relayv1.RelayMessageFrame {
	p.w.t.Helper()
	timeout := time.After(time.Minute)
	for {
		p.mu.Lock()
		box, gone := p.inbox[id], p.gone
		if len(box) > 0 {
			p.inbox[id] = box[1:]
		}
		p.mu.Unlock()
		switch {
		case len(box) > 0:
			return box[0]
		case gone:
			p.w.t.Fatalf("stream %s: no frame, and the connection is gone", id)
		}
		select {
		case <-p.arrived:
		case <-timeout:
			p.w.t.Fatalf("stream %s: no frame", id)
		}
	}
}

// ended waits for the end of the connection.
func (p *peer) ended() {
	p.w.t.Helper()
	timeout := time.After(time.Hour)
	for {
		p.mu.Lock()
		gone := p.gone
		p.mu.Unlock()
		if gone {
			return
		}
		select {
		case <-p.arrived:
		case <-timeout:
			p.w.t.Fatal("the connection does not end")
		}
	}
}

// wantReset waits for a reset of a stream.
func (p *peer) wantReset(id, reason string) {
	p.w.t.Helper()
	f := p.frame(id)
	if frame.Kind(f) != "reset" || f.GetReset_().GetReason() != reason {
		p.w.t.Fatalf("stream %s: got %s %q, want reset %q", id, frame.Kind(f), f.GetReset_().GetReason(), reason)
	}
}

// wantQuiet says that nothing comes for a stream for a while.
func (p *peer) wantQuiet(id string) {
	p.w.t.Helper()
	pass(100 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if box := p.inbox[id]; len(box) > 0 {
		p.w.t.Fatalf("stream %s: got %s, want nothing", id, frame.Kind(box[0]))
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// send sends a frame, as it is.
func (p *peer) send(f *relayv1.RelayMessageFrame) {
	p.w.t.Helper()
	msg, err := frame.Append(nil, f)
	if err != nil {
		p.w.t.Fatal(err)
	}
	p.sendBytes(msg)
}

func (p *peer) sendBytes(msg []byte) {
	p.w.t.Helper()
	if err := p.carrier.Write(context.Background(), msg); err != nil {
		p.w.t.Fatal(err)
	}
}

// Frames of one stream, to be changed at will.
func handshakeFrame(id string, profile frame.Profile, message []byte) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: 1, StreamId: id, Profile: profile.Field(),
		Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: message}},
	}
}

func dataFrame(id string, seq uint32, payload []byte) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: 1, StreamId: id,
		Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{Seq: seq, SegmentCount: 1, Payload: payload}},
	}
}

func resetFrame(id string) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: 1, StreamId: id,
		Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "harness gone"}},
	}
}

func resumeFrame(id string, profile frame.Profile, epoch uint32) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: 1, StreamId: id, Profile: profile.Field(), Epoch: epoch,
		Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}},
	}
}

// A harness makes one handshake.
type harness struct {
	p         *peer
	id        string
	profile   frame.Profile
	initiator *seal.Initiator
	message1  []byte
}

// harness prepares a handshake for the executor's current registration.
func (p *peer) harness(id string, profile frame.Profile, authorization string) *harness {
	p.w.t.Helper()
	p.w.mu.Lock()
	registration := p.w.answer.ExecutorRegistrationID
	p.w.mu.Unlock()
	label := seal.LabelCodex
	if profile == frame.Reliable {
		label = seal.LabelReliable
	}
	i, err := seal.NewInitiator(p.w.harness, p.w.identity.Public(), seal.Prologue{
		Label: label, EnvironmentID: env, RegistrationID: registration, StreamID: id,
	})
	if err != nil {
		p.w.t.Fatal(err)
	}
	m, err := i.WriteMessage1([]byte(authorization))
	if err != nil {
		p.w.t.Fatal(err)
	}
	return &harness{p: p, id: id, profile: profile, initiator: i, message1: m}
}

// ask sends message 1.
func (h *harness) ask() *harness {
	h.p.w.t.Helper()
	h.p.send(handshakeFrame(h.id, h.profile, h.message1))
	return h
}

// accepted waits for message 2 and makes the stream.
func (h *harness) accepted() *relay.Stream {
	h.p.w.t.Helper()
	f := h.p.frame(h.id)
	if frame.Kind(f) != "handshake" {
		h.p.w.t.Fatalf("stream %s: got %s %q, want message 2", h.id, frame.Kind(f), f.GetReset_().GetReason())
	}
	if got := frame.ProfileOf(f); got != h.profile {
		h.p.w.t.Fatalf("stream %s: granted %q, want %q", h.id, got, h.profile)
	}
	transport, err := h.initiator.ReadMessage2(f.GetHandshake().GetPayload())
	if err != nil {
		h.p.w.t.Fatalf("stream %s: %v", h.id, err)
	}
	s := relay.NewStream(relay.StreamConfig{ID: h.id, Profile: h.profile, Transport: transport, Carrier: h.p.carrier})
	h.p.w.t.Cleanup(func() { _ = s.Close() })
	h.p.adopt(h.id, s)
	return s
}

// adopt hands frames of a stream to s from now on.
func (p *peer) adopt(id string, s *relay.Stream) {
	p.mu.Lock()
	box := p.inbox[id]
	delete(p.inbox, id)
	p.streams[id] = s
	p.mu.Unlock()
	for _, f := range box {
		s.Handle(f, nil)
	}
}

// open makes a whole handshake.
func (p *peer) open(id string, profile frame.Profile) *relay.Stream {
	p.w.t.Helper()
	return p.harness(id, profile, "authorization").ask().accepted()
}

// roundTrip says that the executor's end of s echoes.
func (p *peer) roundTrip(s *relay.Stream, text string) {
	p.w.t.Helper()
	if err := roundTrip(s, text); err != nil {
		p.w.t.Fatal(err)
	}
}

func roundTrip(s *relay.Stream, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := s.Write(ctx, []byte(text)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	msg, err := s.Read(ctx)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(msg, []byte(text)) {
		return fmt.Errorf("echoed %.40q, want %.40q", msg, text)
	}
	return nil
}

// dead waits for the end of a stream.
func (p *peer) dead(s *relay.Stream) {
	p.w.t.Helper()
	select {
	case <-s.Done():
	case <-time.After(time.Hour):
		p.w.t.Fatal("the stream does not end")
	}
}
