package executor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// yes is a registry that knows every harness.
type yes struct{}

func (yes) RoundTrip(*http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	_, _ = io.WriteString(rec, `{"valid":true}`)
	return rec.Result(), nil
}

// A tape is a carrier whose frames are given, and which looks at the executor's bounds
// with each.
type tape struct {
	frames [][]byte
	look   func()
	settle func()
	done   chan struct{}
	once   sync.Once
	wrote  func([]byte)
}

func (t *tape) Read(context.Context) ([]byte, error) {
	t.look()
	if len(t.frames) == 0 {
		return nil, io.EOF
	}
	next := t.frames[0]
	t.frames = t.frames[1:]
	if len(next) == 0 {
		t.settle() // an empty frame lets handshakes come to their end
	}
	return next, nil
}

func (t *tape) Write(_ context.Context, msg []byte) error {
	t.wrote(msg)
	return nil
}

func (t *tape) Close() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

// script reads frames from data, each with two bytes of length before it.
func script(data []byte) [][]byte {
	var frames [][]byte
	for len(data) >= 2 {
		n := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
		frames = append(frames, data[2:2+n:2+n])
		data = data[2+n:]
	}
	return frames
}

func record(frames ...[]byte) []byte {
	var data []byte
	for _, f := range frames {
		data = binary.BigEndian.AppendUint16(data, uint16(len(f)))
		data = append(data, f...)
	}
	return data
}

// fixedIdentity is the same in every process, so that what was found is found again.
func fixedIdentity() []byte {
	b64 := func(b byte, n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, n)) }
	return fmt.Appendf(nil, `{"suite":%q,"x25519_private_key":%q,"mlkem768_seed":%q}`, seal.Suite, b64(1, 32), b64(2, 64))
}

// What comes over a connection, in whatever order, neither breaks the executor nor
// makes it hold more than it may, and what it answers is valid.
func FuzzFrames(f *testing.F) {
	identity, err := seal.ParseIdentity(fixedIdentity())
	if err != nil {
		f.Fatal(err)
	}
	client, err := registry.New(registry.Config{BaseURLs: []string{"http://localhost"}, Transport: yes{}})
	if err != nil {
		f.Fatal(err)
	}
	message1 := func(id string, label seal.Label) []byte {
		own, err := seal.NewIdentity()
		if err != nil {
			f.Fatal(err)
		}
		i, err := seal.NewInitiator(own, identity.Public(), seal.Prologue{Label: label, EnvironmentID: env, RegistrationID: "reg-a", StreamID: id})
		if err != nil {
			f.Fatal(err)
		}
		m, err := i.WriteMessage1([]byte("a"))
		if err != nil {
			f.Fatal(err)
		}
		return m
	}
	enc := func(m *relayv1.RelayMessageFrame) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	codex := enc(handshakeFrame("c", frame.Codex, message1("c", seal.LabelCodex)))
	reliable := enc(handshakeFrame("r", frame.Reliable, message1("r", seal.LabelReliable)))
	var many [][]byte
	for i := range 200 {
		many = append(many, enc(handshakeFrame(strings.Repeat("x", i+1), frame.Codex, []byte("short"))))
	}
	f.Add(record(codex, nil, enc(dataFrame("c", 0, []byte("x"))), codex, nil, enc(resetFrame("c")), nil, codex))
	f.Add(record(enc(resumeFrame("r", frame.Reliable, 0)), reliable, nil, enc(resumeFrame("r", frame.Reliable, 1)), enc(heartbeatFrame("r")), enc(ackFrame("r")), enc(resetFrame("r"))))
	f.Add(record(codex, codex, reliable, codex, nil, enc(resetFrame("c")), codex))
	f.Add(record(many...))
	f.Add(record(enc(dataFrame("u", 7, []byte("x"))), enc(resumeFrame("u", frame.Reliable, 9)), nil, []byte("x")))

	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := newExecutor(Config{
			Registry: client, EnvironmentID: env, Identity: identity,
			Serve: func(ctx context.Context, conn rpc.Connection, info StreamInfo) { echo(ctx, conn, info) },
		})
		if err != nil {
			t.Fatal(err)
		}
		streams, end := context.WithCancel(t.Context())
		x.streams = streams
		frames := script(data)
		tape := &tape{frames: frames, done: make(chan struct{})}
		tape.look = func() {
			x.table.mu.Lock()
			defer x.table.mu.Unlock()
			if n := len(x.table.entries); n > MaxStreams || x.table.slots > MaxStreams || x.table.handshakes > MaxPending {
				t.Errorf("%d entries, %d places, %d handshakes", n, x.table.slots, x.table.handshakes)
			}
		}
		tape.wrote = func(msg []byte) {
			if _, err := frame.Decode(msg); err != nil {
				t.Errorf("it sent an invalid frame: %v", err)
			}
		}
		s := x.newSocket(tape, "reg-a")
		tape.settle = s.handshakes.Wait
		if err := s.serve(t.Context()); err == nil {
			t.Error("the end of the connection is no error")
		}
		end()
		x.endStreams()
		x.serving.Wait()
		select {
		case <-x.table.close():
		case <-time.After(time.Minute):
			t.Errorf("%d places are still taken", x.table.slots)
		}
		if n := len(x.table.entries); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}
