package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/protocol"
)

// Opcodes of RFC 6455, section 5.2, and the bits of the first two bytes.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa

	bitFin  = 0x80
	bitRSV1 = 0x40
	bitMask = 0x80
)

// frames is a WebSocket client that writes frames as they are told, right or wrong.
type frames struct {
	t    *testing.T
	conn *net.TCPConn
	r    *bufio.Reader
}

func dialFrames(t *testing.T, addr string) *frames {
	t.Helper()
	return dialFramesWith(t, addr, "")
}

// dialFramesWith adds header lines to the upgrade request.
func dialFramesWith(t *testing.T, addr, headers string) *frames {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%s%s\r\n", headers, upgrade)
	f := &frames{t: t, conn: conn.(*net.TCPConn), r: bufio.NewReader(conn)}
	resp, err := http.ReadResponse(f.r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", resp, err)
	}
	resp.Body.Close()
	return f
}

// frame makes a masked frame.
func frame(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, bitMask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bitMask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bitMask|127), uint64(n))
	}
	key := [4]byte{1, 2, 3, 4}
	if len(payload) > 1<<16 {
		return append(append(b, 0, 0, 0, 0), payload...) // a key too, and fast
	}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i%4])
	}
	return b
}

func (f *frames) write(parts ...[]byte) {
	f.t.Helper()
	if _, err := f.conn.Write(bytes.Join(parts, nil)); err != nil {
		f.t.Fatal(err)
	}
}

// read returns the next frame, which must be whole and unmasked.
func (f *frames) read() (opcode byte, payload string) {
	f.t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		f.t.Fatalf("read frame: %v", err)
	}
	if head[0]&bitFin == 0 || head[1]&bitMask != 0 {
		f.t.Fatalf("frame head %x", head)
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		_, _ = io.ReadFull(f.r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, _ = io.ReadFull(f.r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(f.r, b); err != nil {
		f.t.Fatalf("read payload: %v", err)
	}
	if head[0]&0xf == opText && (!utf8.Valid(b) || !json.Valid(b)) {
		f.t.Errorf("text frame that is no UTF-8 or no JSON: %q", b)
	}
	return head[0] & 0xf, string(b)
}

// want reads a text frame and compares it.
func (f *frames) want(want string) {
	f.t.Helper()
	if op, got := f.read(); op != opText || got != want {
		f.t.Fatalf("got opcode %x %s\nwant text %s", op, got, want)
	}
}

// closed reads the close frame and the end of the connection, and returns the code
// and the reason.
func (f *frames) closed() (int, string) {
	f.t.Helper()
	op, payload := f.read()
	if op != opClose || len(payload) < 2 {
		f.t.Fatalf("opcode %x %q instead of a close frame", op, payload)
	}
	if _, err := io.Copy(io.Discard, f.r); err != nil {
		f.t.Errorf("after the close frame: %v", err)
	}
	return int(binary.BigEndian.Uint16([]byte(payload))), payload[2:]
}

func (f *frames) open() {
	f.t.Helper()
	f.write(frame(bitFin|opText, initializeRequest("")), frame(bitFin|opText, `{"method":"initialized"}`))
	f.read()
}

func metadata(id int, path string) (request, answer string) {
	return fmt.Sprintf(`{"id":%d,"method":"fs/getMetadata","params":{"path":"%s"}}`, id, path), fmt.Sprintf(`{"id":%d,"result":{"path":"%s"}}`, id, path)
}

// C-021: messages may come in any split.
func TestC021Fragments(t *testing.T) {
	w := newWorld(t, Config{})
	f := dialFrames(t, w.listen(HTTPConfig{}))
	f.open()

	// Split inside a multi-byte character, with a ping and an empty fragment between.
	request, answer := metadata(1, "é€")
	cut := bytes.IndexByte([]byte(request), 0xc3) + 1
	f.write(frame(opText, request[:1]), frame(bitFin|opPing, "x"), frame(opContinuation, ""),
		frame(opContinuation, request[1:cut]), frame(bitFin|opContinuation, request[cut:]))
	for _, want := range []struct {
		op      byte
		payload string
	}{{opPong, "x"}, {opText, answer}} {
		if op, got := f.read(); op != want.op || got != want.payload {
			t.Fatalf("got %x %q, want %x %q", op, got, want.op, want.payload)
		}
	}

	// Two requests in one segment.
	r2, a2 := metadata(2, "a")
	r3, a3 := metadata(3, "b")
	f.write(frame(bitFin|opText, r2), frame(bitFin|opText, r3))
	_, first := f.read()
	_, second := f.read()
	if (first != a2 || second != a3) && (first != a3 || second != a2) {
		t.Errorf("got %s and %s", first, second)
	}

	// A byte a segment.
	r4, a4 := metadata(4, "c")
	for _, b := range frame(bitFin|opText, r4) {
		f.write([]byte{b})
	}
	f.want(a4)
}

// C-021: breaches of the framing close the connection with 1002, and only that one.
func TestC021Breaches(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	bystander := webSocket(t, addr)
	bystander.open("")
	request, _ := metadata(1, "p")
	for name, bytes := range map[string][]byte{
		"continuation of nothing": frame(bitFin|opContinuation, request),
		"ping of 126 bytes":       frame(bitFin|opPing, string(make([]byte, 126))),
		"ping in fragments":       frame(opPing, "x"),
		"unmasked":                append([]byte{bitFin | opText, byte(len(request))}, request...),
		"reserved bit":            frame(bitFin|bitRSV1|opText, request),
		"unknown opcode":          frame(bitFin|0x3, request),
		"text within a message":   append(frame(opText, "{"), frame(bitFin|opText, "}")...),
	} {
		t.Run(name, func(t *testing.T) {
			f := dialFrames(t, addr)
			f.open()
			f.write(bytes)
			if code, reason := f.closed(); code != 1002 || reason == "" {
				t.Errorf("closed with %d %q", code, reason)
			}
		})
	}
	bystander.ping()
}

// A client's close frame is answered.
func TestCloseFrameIsAnswered(t *testing.T) {
	w := newWorld(t, Config{})
	f := dialFrames(t, w.listen(HTTPConfig{}))
	f.open()
	f.write(frame(bitFin|opClose, "\x03\xe8bye"))
	if code, _ := f.closed(); code != 1000 {
		t.Errorf("closed with %d", code)
	}
}

// C-022: binary frames are served, and what is no UTF-8 is refused aloud.
func TestC022BinaryAndBrokenUTF8(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	f := dialFrames(t, addr)
	f.open()
	request, answer := metadata(1, "é")
	f.write(frame(bitFin|opBinary, request))
	f.want(answer)

	broken, _ := metadata(2, "a\xffb")
	for _, op := range []byte{opText, opBinary} {
		f.write(frame(bitFin|op, broken))
		var env struct {
			ID    int
			Error *protocol.Error
		}
		_, got := f.read()
		if err := json.Unmarshal([]byte(got), &env); err != nil || env.Error == nil || env.ID != -1 {
			t.Errorf("got %s", got)
		}
	}

	// Lone surrogates, as a value and as an id: the answer is UTF-8 all the same (see read).
	lone, _ := metadata(3, `\ud800`)
	f.write(frame(bitFin|opText, lone))
	f.read()
	f.write(frame(bitFin|opText, `{"id":"\udfff","method":"fs/getMetadata","params":{"path":"p"}}`))
	f.read()
	f.write(frame(bitFin|opText, request))
	f.want(answer)
}

// Frames and messages up to the limits pass.
func TestC020LargeFrames(t *testing.T) {
	w := newWorld(t, Config{})
	f := dialFrames(t, w.listen(HTTPConfig{}))
	f.open()
	const frameBytes = 16 << 20
	const begin, end = `{"pad":"`, `","id":1,"method":"fs/getMetadata","params":{"path":"p"}}`
	pad := string(bytes.Repeat([]byte("x"), frameBytes-len(begin)-len(end)))
	f.write(frame(bitFin|opText, begin+pad+end)) // one frame of 16 MiB
	_, answer := metadata(1, "p")
	f.want(answer)

	half := string(bytes.Repeat([]byte("x"), frameBytes/2)) // 64 MiB in 8 MiB fragments
	f.write(frame(opText, begin+half[len(begin):]))
	for range 6 {
		f.write(frame(opContinuation, half))
	}
	f.write(frame(bitFin|opContinuation, half[len(end):]+end))
	f.want(answer)
}

// C-020: a message over the limit ends its connection with 1009, which the client
// receives although it was still sending; others do not notice.
func TestC020TooLarge(t *testing.T) {
	w := newWorld(t, Config{})
	addr := w.listen(HTTPConfig{})
	bystander := webSocket(t, addr)
	bystander.open("")
	for name, parts := range map[string][][]byte{
		"one frame": {frame(bitFin|opText, string(make([]byte, protocol.MaxMessageBytes+1)))},
		"fragments": {frame(opText, string(make([]byte, protocol.MaxMessageBytes))), frame(bitFin|opContinuation, "x")},
	} {
		t.Run(name, func(t *testing.T) {
			f := dialFrames(t, addr)
			f.open()
			wrote := make(chan struct{})
			go func() {
				defer close(wrote)
				for _, part := range parts {
					_, _ = f.conn.Write(part) // may fail: the server need not read all of it
				}
			}()
			code, reason := f.closed()
			if code != 1009 {
				t.Errorf("closed with %d %q", code, reason)
			}
			<-wrote
		})
	}
	bystander.ping()
}
