package raw

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxFrame is how much of a message goes into one frame: the codex exec-server takes
// frames of up to 16 MiB.
const maxFrame = 8 << 20

// readBuffer is how much is read at once. Frames that fit are not copied again.
const readBuffer = 256 << 10

// Opcodes of RFC 6455.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// ErrClosed is what Read returns once the server has said goodbye.
var ErrClosed = errors.New("the server closed the connection")

// Config says how to connect.
type Config struct {
	// QuickAck acknowledges whatever arrives at once, as a client on a busy or far
	// connection does, instead of waiting up to 40 ms for something to send along.
	// It needs Linux.
	QuickAck bool
	// Header is added to the upgrade request.
	Header http.Header
	// Timeout bounds connecting, and each Send and Read. 0 means 60 s.
	Timeout time.Duration
}

// A webSocket is the Wire of Dial.
type webSocket struct {
	conn    net.Conn
	r       *bufio.Reader
	timeout time.Duration
	pending int    // bytes of r that the last message points to
	large   []byte // holds messages that do not fit into r's buffer

	mu  sync.Mutex // guards out and the order of frames
	out []byte
}

// Dial connects to addr, such as 127.0.0.1:4000, and upgrades.
func Dial(ctx context.Context, addr string, cfg Config) (*Client, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	conn, err := (&net.Dialer{Timeout: cfg.Timeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	var in io.Reader = conn
	if cfg.QuickAck {
		if in, err = newQuickAcker(conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	ws := &webSocket{conn: conn, r: bufio.NewReaderSize(in, readBuffer), timeout: cfg.Timeout}
	if err := ws.upgrade(ctx, addr, cfg.Header); err != nil {
		conn.Close()
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	return &Client{wire: ws, ws: ws}, nil
}

func (c *webSocket) upgrade(ctx context.Context, addr string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if err := req.Write(c.conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.r, req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

func (c *webSocket) Close() error { return c.conn.Close() }

// Send sends msg as one text message, in fragments if it is long. The frames are
// masked with a key of zero, which leaves msg as it is.
func (c *webSocket) Send(msg []byte) error { return c.send(opText, msg) }

func (c *webSocket) send(op byte, msg []byte) error {
	c.mu.Lock() // held over the write, since frames must not mix; Close ends it
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	for {
		part := msg[:min(len(msg), maxFrame)]
		msg = msg[len(part):]
		if err := c.writeFrame(op, len(msg) == 0, part); err != nil {
			return err
		}
		if len(msg) == 0 {
			return nil
		}
		op = opContinuation
	}
}

// writeFrame sends one frame. A short payload is copied behind its head, so that both
// leave in one packet; a long one is not.
func (c *webSocket) writeFrame(op byte, fin bool, payload []byte) error {
	c.out = appendHead(c.out[:0], op, fin, len(payload))
	if len(payload) <= 4096 {
		c.out = append(c.out, payload...)
		_, err := c.conn.Write(c.out)
		return err
	}
	both := net.Buffers{c.out, payload}
	_, err := both.WriteTo(c.conn)
	return err
}

// appendHead appends the head of a masked frame, as clients must send them.
func appendHead(dst []byte, op byte, fin bool, n int) []byte {
	if fin {
		op |= 0x80
	}
	dst = append(dst, op)
	switch {
	case n < 126:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	return append(dst, 0, 0, 0, 0)
}

// A frame is the head of one that is being read.
type frame struct {
	op  byte
	fin bool
	len int
}

func (c *webSocket) readFrame() (frame, error) {
	head, err := c.r.Peek(2)
	if err != nil {
		return frame{}, err
	}
	f := frame{op: head[0] & 0x0f, fin: head[0]&0x80 != 0, len: int(head[1] & 0x7f)}
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return frame{}, fmt.Errorf("frame head %x: reserved bits or a mask", head)
	}
	size := 2
	switch f.len {
	case 126:
		size = 4
	case 127:
		size = 10
	}
	if head, err = c.r.Peek(size); err != nil {
		return frame{}, err
	}
	switch f.len {
	case 126:
		f.len = int(binary.BigEndian.Uint16(head[2:]))
	case 127:
		f.len = int(binary.BigEndian.Uint64(head[2:]))
	}
	if f.len < 0 || f.len > 1<<30 {
		return frame{}, fmt.Errorf("frame of %d bytes", f.len)
	}
	_, err = c.r.Discard(size)
	return f, err
}

// ReadBytes returns the next message, which is valid until the next call. It answers
// pings.
func (c *webSocket) ReadBytes() ([]byte, error) {
	if _, err := c.r.Discard(c.pending); err != nil {
		return nil, err
	}
	c.pending = 0
	if err := c.conn.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	c.large = c.large[:0]
	for {
		f, err := c.readFrame()
		if err != nil {
			return nil, err
		}
		if f.op >= opClose {
			if err := c.control(f); err != nil {
				return nil, err
			}
			continue
		}
		if f.fin && f.op != opContinuation && f.len <= readBuffer {
			c.pending = f.len
			return c.r.Peek(f.len)
		}
		at := len(c.large)
		c.large = append(c.large, make([]byte, f.len)...)
		if _, err := io.ReadFull(c.r, c.large[at:]); err != nil {
			return nil, err
		}
		if f.fin {
			return c.large, nil
		}
	}
}

func (c *webSocket) control(f frame) error {
	payload := make([]byte, f.len)
	if _, err := io.ReadFull(c.r, payload); err != nil {
		return err
	}
	switch f.op {
	case opPing:
		return c.send(opPong, payload)
	case opClose:
		if len(payload) >= 2 {
			return fmt.Errorf("%w: %d %s", ErrClosed, binary.BigEndian.Uint16(payload), payload[2:])
		}
		return ErrClosed
	default:
		return nil
	}
}
