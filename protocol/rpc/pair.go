package rpc

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// pairBuffer is how many messages one direction of a Pair holds.
const pairBuffer = 16

// Pair returns the two ends of an in-memory connection. Each direction holds a few
// messages and then blocks its writer.
func Pair() (Connection, Connection) {
	a2b, b2a := make(chan []byte, pairBuffer), make(chan []byte, pairBuffer)
	aDone, bDone := make(chan struct{}), make(chan struct{})
	a := &pairEnd{in: b2a, out: a2b, done: aDone, peerDone: bDone}
	b := &pairEnd{in: a2b, out: b2a, done: bDone, peerDone: aDone}
	return a, b
}

type pairEnd struct {
	in             <-chan []byte
	out            chan<- []byte
	done, peerDone chan struct{}
	once           sync.Once
}

func (p *pairEnd) Read(ctx context.Context) ([]byte, error) {
	select {
	case <-p.done:
		return nil, ErrClosed
	default:
	}
	var err error
	select {
	case msg := <-p.in:
		return msg, nil
	case <-p.done:
		return nil, ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.peerDone:
		err = io.EOF
	}
	select { // what the peer wrote before still counts
	case msg := <-p.in:
		return msg, nil
	default:
		return nil, err
	}
}

func (p *pairEnd) Write(ctx context.Context, msg []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-p.done:
		return ErrClosed
	case <-p.peerDone:
		return ErrClosed
	default:
	}
	select {
	case p.out <- bytes.Clone(msg):
		return nil
	case <-p.done:
		return ErrClosed
	case <-p.peerDone:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pairEnd) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}
