package execserver_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A rawSocket is a WebSocket client that writes whatever frames, and TCP segments, it
// is told to.
type rawSocket struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

// Opcodes of RFC 6455, section 5.2, and the bit of a final frame.
const (
	opContinuation = 0x0
	opText         = 0x1
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa
	finBit         = 0x80
)

func dialRaw(t *testing.T, url string) *rawSocket {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	s := &rawSocket{t: t, conn: conn, r: bufio.NewReader(conn)}
	response, err := http.ReadResponse(s.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %s", response.Status)
	}
	s.write(rawFrame(finBit|opText, `{"id":0,"method":"initialize","params":{"clientName":"raw"}}`), rawFrame(finBit|opText, `{"method":"initialized"}`))
	s.answer("0")
	return s
}

// rawFrame is a masked frame; first is its first byte.
func rawFrame(first byte, payload string) []byte {
	frame := []byte{first}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, 4}
	frame = append(frame, mask[:]...)
	for i := range len(payload) {
		frame = append(frame, payload[i]^mask[i%4])
	}
	return frame
}

// write sends the frames in one segment.
func (s *rawSocket) write(frames ...[]byte) {
	s.t.Helper()
	var all []byte
	for _, frame := range frames {
		all = append(all, frame...)
	}
	if _, err := s.conn.Write(all); err != nil {
		s.t.Fatal(err)
	}
}

// next reads a frame.
func (s *rawSocket) next() (op byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1])
	if n >= 126 {
		size := make([]byte, 2+(n-126)*6)
		if _, err := io.ReadFull(s.r, size); err != nil {
			return 0, nil, err
		}
		n = binary.BigEndian.Uint64(append(make([]byte, 8-len(size)), size...))
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(s.r, payload)
	return head[0], payload, err
}

// answer reads up to the answer to id and returns the pongs that came before.
func (s *rawSocket) answer(id string) (pongs []string) {
	s.t.Helper()
	for {
		op, payload, err := s.next()
		if err != nil {
			s.t.Fatalf("the answer to %s: %v", id, err)
		}
		switch op {
		case finBit | opPong:
			pongs = append(pongs, string(payload))
		case finBit | opText:
			f, err := parseFrame(payload)
			if err != nil {
				s.t.Fatal(err)
			}
			if string(f.ID) != id {
				s.t.Fatalf("got %s, want the answer to %s", payload, id)
			}
			if f.Error != nil {
				s.t.Errorf("request %s: %v", id, f.Error)
			}
			return pongs
		default:
			s.t.Fatalf("got a frame of kind %#x %q", op, payload)
		}
	}
}

// closed reads to the end and returns the code of the close frame.
func (s *rawSocket) closed() (int, error) {
	for {
		op, payload, err := s.next()
		if err != nil {
			return 0, err
		}
		if op == finBit|opClose && len(payload) >= 2 {
			if _, _, err := s.next(); err == nil {
				return 0, errors.New("more came after the close frame")
			}
			return int(binary.BigEndian.Uint16(payload)), nil
		}
	}
}

// TestC021: fragmented frames behind a proxy.
func TestC021(t *testing.T) {
	t.Parallel()
	url, dir := serve(t), privateDir(t)
	mustFile(t, dir, "mkdir é")
	request := func(id string) string {
		return `{"id":` + id + `,"method":"fs/getMetadata","params":{"path":"` + fileURI(dir) + `/é"}}`
	}

	// One byte, a ping, nothing, the rest, cut inside the letter.
	s := dialRaw(t, url)
	text := request("1")
	cut := strings.Index(text, "é") + 1
	s.write(rawFrame(opText, text[:1]))
	s.write(rawFrame(finBit|opPing, "x"))
	s.write(rawFrame(opContinuation, ""))
	s.write(rawFrame(opContinuation, text[1:cut]))
	s.write(rawFrame(finBit|opContinuation, text[cut:]))
	pongs := s.answer("1")
	if len(pongs) == 0 {
		op, payload, err := s.next()
		if err != nil || op != finBit|opPong {
			t.Fatalf("want a pong, got %#x %q %v", op, payload, err)
		}
		pongs = append(pongs, string(payload))
	}
	if len(pongs) != 1 || pongs[0] != "x" {
		t.Errorf("pongs %q", pongs)
	}

	// Two requests in one segment; answers may come in any order.
	s.write(rawFrame(finBit|opText, request("2")), rawFrame(finBit|opText, request("3")))
	seen := make(map[string]bool)
	for range 2 {
		_, payload, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseFrame(payload)
		if err != nil || f.Error != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		seen[string(f.ID)] = true
	}
	if !seen["2"] || !seen["3"] {
		t.Errorf("answers to %v", seen)
	}

	// One byte a segment: there is no Nagle, so each write is sent at once.
	for _, b := range rawFrame(finBit|opText, request("4")) {
		s.write([]byte{b})
	}
	s.answer("4")

	unmasked := append([]byte{finBit | opText, byte(len("{}"))}, "{}"...)
	faults := map[string][]byte{
		"a continuation without a start": rawFrame(finBit|opContinuation, "x"),
		"a ping of 126 bytes":            rawFrame(finBit|opPing, strings.Repeat("x", 126)),
		"an unmasked frame":              unmasked,
		"a reserved bit":                 rawFrame(finBit|0x40|opText, "{}"),
	}
	for name, frame := range faults {
		t.Run(name, func(t *testing.T) {
			s := dialRaw(t, url)
			s.write(frame)
			if code, err := s.closed(); err != nil || code != 1002 {
				t.Errorf("close code %d, %v", code, err)
			}
		})
	}
	dial(t, url).alive(url)
}
