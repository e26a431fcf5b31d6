package rendezvous_test

import (
	"testing"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
)

func handshake(profile frame.Profile) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{StreamId: "s", Profile: profile.Field(), Body: &relayv1.RelayMessageFrame_Handshake{
		Handshake: &relayv1.RelayHandshake{Payload: []byte("hello")},
	}}
}

func resume(profile frame.Profile) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{StreamId: "s", Profile: profile.Field(), Body: &relayv1.RelayMessageFrame_Resume{
		Resume: &relayv1.RelayResume{},
	}}
}

// Whether the executor is told of the end of a harness's stream depends on what the
// executor has answered: a harness that claims more cannot leave streams behind.
func TestWhoIsToldOfTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		shakes bool                       // the harness sends a handshake
		answer *relayv1.RelayMessageFrame // the executor's; nil if there is none
		told   bool
	}{
		"granted":                            {true, handshake(frame.Reliable), false},
		"not granted":                        {true, handshake(frame.Codex), true},
		"not answered yet":                   {true, nil, true},
		"back, and known to the executor":    {false, resume(frame.Reliable), false},
		"back, and the executor is to speak": {false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			_, executor := w.attach(identity(t))
			h := w.open("s", frame.Reliable)
			receive(t, executor)
			if c.shakes {
				send(t, h, handshake(frame.Reliable))
				receive(t, executor)
			}
			if c.answer != nil {
				send(t, executor, c.answer)
				receive(t, h)
			}
			_ = h.Close()
			if c.told {
				if f := receive(t, executor); f.GetStreamId() != "s" || f.GetReset_() == nil {
					t.Errorf("the executor got %v", f)
				}
			}
			w.open("next", frame.Codex)
			if f := receive(t, executor); f.GetStreamId() != "next" {
				t.Errorf("the executor got %v", f)
			}
		})
	}
}

// An executor that resets a stream because of a second handshake keeps it; its harness
// takes it for gone. So the executor is told, and nobody can leave streams behind so.
func TestExecutorsResetIsConfirmed(t *testing.T) {
	w := newWorld(t, nil)
	_, executor := w.attach(identity(t))
	h := w.open("s", frame.Codex)
	receive(t, executor)
	reset := &relayv1.RelayMessageFrame{StreamId: "s", Body: &relayv1.RelayMessageFrame_Reset_{
		Reset_: &relayv1.RelayReset{Reason: frame.ReasonProtocolError},
	}}
	for range 2 {
		send(t, h, handshake(frame.Codex))
		receive(t, executor)
		send(t, executor, handshake(frame.Codex))
		receive(t, h)
		send(t, h, handshake(frame.Codex))
		receive(t, executor)
		send(t, executor, reset)
		if f := receive(t, h); f.GetReset_() == nil {
			t.Fatalf("the harness got %v", f)
		}
		if f := receive(t, executor); f.GetStreamId() != "s" || f.GetReset_() == nil {
			t.Fatalf("the executor got %v", f)
		}
	}
	// One that never knew the stream is not told.
	send(t, h, resume(frame.Codex))
	receive(t, executor)
	send(t, executor, reset)
	receive(t, h)
	w.open("next", frame.Codex)
	if f := receive(t, executor); f.GetStreamId() != "next" {
		t.Errorf("the executor got %v", f)
	}
}
