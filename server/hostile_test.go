package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// hostile makes bad messages of good ones.
type hostile struct{ rng *rand.Rand }

var goodMessages = []string{
	`{"id":1,"method":"initialize","params":{"clientName":"c","resumeSessionId":null}}`,
	`{"method":"initialized","params":{}}`,
	`{"id":2,"method":"process/start","params":{"processId":"p","argv":["true","é€😀"]},"trace":{"traceparent":"x","tracestate":null}}`,
	`{"id":"three","method":"process/read","params":{"processId":"p","afterSeq":18446744073709551615,"waitMs":0}}`,
	`{"jsonrpc":"2.0","id":-4,"method":"fs/getMetadata","params":{"path":"file:///x\u0000\ud800"}}`,
	`{"id":5,"method":"process/terminate","params":{"processId":"p"}}`,
	`{"id":6,"result":{"a":[1,2.5e300,true,null]}}`,
	`{"id":7,"error":{"code":-1,"message":"m","data":{}}}`,
}

var hostileBits = []string{
	`{`, `}`, `[`, `]`, `"`, `\`, `,`, `:`, "\x00", "\xff", "\xc3", "\xed\xa0\x80", `null`, `true`, `1e999`, `-`, `9223372036854775808`,
	`"id":1,`, `"method":"x",`, `"method":5,`, `"params":[],`, `"id":{},`, `\u12`, `\ud800`, "\u2028", " ", "\n", `"result":1,`, `"trace":7,`,
}

func (h hostile) message() []byte {
	msg := []byte(goodMessages[h.rng.IntN(len(goodMessages))])
	switch h.rng.IntN(12) {
	case 0: // nested too deep
		n := 100 + h.rng.IntN(4000)
		open, end := `[`, `]`
		if h.rng.IntN(2) == 0 {
			open, end = `{"a":`, `}`
		}
		return fmt.Appendf(nil, `{"id":1,"method":"fs/getMetadata","params":%s1%s}`, strings.Repeat(open, n), strings.Repeat(end, h.rng.IntN(n+1)))
	case 1: // noise
		b := make([]byte, h.rng.IntN(300))
		for i := range b {
			b[i] = byte(h.rng.Uint32())
		}
		return b
	case 2: // a name or a method without end
		return fmt.Appendf(nil, `{"id":1,"method":"%s","params":{}}`, strings.Repeat("m", h.rng.IntN(5000)))
	case 3: // cut short
		return msg[:h.rng.IntN(len(msg))]
	case 4: // twice, or a batch
		return bytes.Join([][]byte{msg, msg}, []byte([]string{"", ",", "\n"}[h.rng.IntN(3)]))
	case 5:
		return fmt.Appendf(nil, `[%s]`, msg)
	}
	for range 1 + h.rng.IntN(4) {
		at := h.rng.IntN(len(msg) + 1)
		switch bit := hostileBits[h.rng.IntN(len(hostileBits))]; h.rng.IntN(3) {
		case 0: // put in
			msg = append(msg[:at:at], append([]byte(bit), msg[at:]...)...)
		case 1: // put over
			msg = append(msg[:at:at], append([]byte(bit), msg[min(at+len(bit), len(msg)):]...)...)
		case 2: // flip
			if at < len(msg) {
				msg[at] ^= 1 << h.rng.IntN(8)
			}
		}
	}
	return msg
}

// Ten thousand bad messages, on connections in every stage of the handshake, leave the
// server serving and no larger.
func TestHostileMessages(t *testing.T) {
	const connections, each = 20, 500
	w := newWorld(t, Config{SessionGrace: -1})
	addr := w.listen(HTTPConfig{})
	bystander := webSocket(t, addr)
	bystander.open("")
	var before int64
	var goroutines int
	for n := range connections {
		if n == 2 { // with pools and buffers warm
			eventually(t, "the first connections have ended", func() bool { return w.Stats().Connections == 1 })
			before, goroutines = heap(), runtime.NumGoroutine()
		}
		attack(t, addr, uint64(n), each)
		bystander.ping()
	}
	eventually(t, "the connections have ended", func() bool { return w.Stats().Connections == 1 })
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("grew by %d KiB", grown>>10)
	}
	eventually(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines+4 })
	webSocket(t, addr).open("")
}

// attack sends bad messages on one connection, all at once, and looks at the answers.
func attack(t *testing.T, addr string, seed uint64, messages int) {
	t.Helper()
	h := hostile{rand.New(rand.NewPCG(seed, 1))}
	f := dialFrames(t, addr)
	if seed%3 != 0 {
		f.write(frame(bitFin|opText, initializeRequest("")))
	}
	if seed%3 == 2 {
		f.write(frame(bitFin|opText, `{"method":"initialized"}`))
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		for range messages {
			f.write(frame(bitFin|opText, string(h.message())))
		}
		f.write(frame(bitFin|opText, `{"id":"last","method":"no/such"}`))
	})
	answers := 0
	for {
		_, text := f.read() // checks that it is JSON in UTF-8
		var env struct {
			ID    json.RawMessage
			Error *protocol.Error
		}
		if err := json.Unmarshal([]byte(text), &env); err != nil {
			t.Fatalf("seed %d: %v: %.200s", seed, err, text)
		}
		if env.Error != nil && (env.Error.Code == 0 || env.Error.Code == protocol.CodeInternal || env.Error.Message == "") {
			t.Fatalf("seed %d: %s", seed, text)
		}
		if string(env.ID) == `"last"` {
			break
		}
		answers++
	}
	sending.Wait()
	if answers < messages*9/10 { // only initialized, and what still is it, needs no answer
		t.Errorf("seed %d: %d answers to %d messages", seed, answers, messages)
	}
	f.conn.Close()
}

// Bytes that are no frames end their connection, and only theirs.
func TestHostileFrames(t *testing.T) {
	w := newWorld(t, Config{SessionGrace: -1})
	addr := w.listen(HTTPConfig{})
	bystander := webSocket(t, addr)
	bystander.open("")
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range 200 {
		f := dialFrames(t, addr)
		if n%2 == 0 {
			f.open()
		}
		noise := make([]byte, 1+rng.IntN(2000))
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		if n%4 < 2 { // more likely to be taken for a frame
			noise = append(frame([]byte{bitFin | opText, opText, bitFin | opPing, bitFin | opClose, bitFin | opPong}[n%5], string(noise[:rng.IntN(len(noise))])), noise...)
		}
		_, _ = f.conn.Write(noise)
		_ = f.conn.CloseWrite()
		_ = f.conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, f.r); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is still open after %x", n, noise)
		}
		f.conn.Close()
	}
	bystander.ping()
	eventually(t, "the connections have ended", func() bool { return w.Stats().Connections == 1 })
}
