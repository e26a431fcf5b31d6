package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// movingPeer answers all calls. during is called in each, closed counts the streams that were closed.
type movingPeer struct {
	changes.Peer
	during func()
	closed int
}

func (p *movingPeer) Watermarks(context.Context, bool) (w changes.Watermarks, err error) {
	p.during()
	return w, nil
}

func (p *movingPeer) FetchChanges(context.Context, changes.FetchQuery) (*changes.Fetch, error) {
	p.during()
	end := func(context.Context) (tree.Entry, error) { return tree.Entry{}, io.EOF }
	return &changes.Fetch{Entries: changes.FromFunc(end, func(error) { p.closed++ })}, nil
}

func (p *movingPeer) HasObjects(context.Context, []tree.Hash) ([]tree.Hash, error) {
	p.during()
	return nil, nil
}

func (p *movingPeer) PushObjects(context.Context, changes.Stream[tree.Data]) error {
	p.during()
	return nil
}

func (p *movingPeer) Push(context.Context, changes.PushInput, changes.Stream[tree.Entry]) (r changes.PushResult, err error) {
	p.during()
	return r, nil
}

func (p *movingPeer) ReadEntry(context.Context, string) (*tree.Entry, error) {
	p.during()
	return nil, nil
}

func (p *movingPeer) Lost(context.Context, int64, int) ([]lost.Version, bool, error) {
	p.during()
	return nil, false, nil
}

// A server that is replaced by another one before or during a call answers nothing that counts, and is sent nothing.
func TestFixedPeer(t *testing.T) {
	const before, during, never = "before", "during", "never"
	for name, call := range map[string]func(changes.Peer) error{
		"watermarks": func(p changes.Peer) error { _, err := p.Watermarks(t.Context(), true); return err },
		"fetch":      func(p changes.Peer) error { _, err := p.FetchChanges(t.Context(), changes.FetchQuery{}); return err },
		"has":        func(p changes.Peer) error { _, err := p.HasObjects(t.Context(), nil); return err },
		"send":       func(p changes.Peer) error { return p.PushObjects(t.Context(), changes.FromSlice[tree.Data](nil)) },
		"push": func(p changes.Peer) error {
			_, err := p.Push(t.Context(), changes.PushInput{}, changes.FromSlice[tree.Entry](nil))
			return err
		},
		"entry": func(p changes.Peer) error { _, err := p.ReadEntry(t.Context(), "/"); return err },
		"lost":  func(p changes.Peer) error { _, _, err := p.Lost(t.Context(), 0, 0); return err },
	} {
		for _, when := range []string{before, during, never} {
			store, asked := "one", false
			if when == before {
				store = "two"
			}
			peer := &movingPeer{during: func() {
				asked = true
				if when == during {
					store = "two"
				}
			}}
			err := call(&fixedPeer{peer, func(context.Context) (protocol.EnvironmentInfo, error) {
				return protocol.EnvironmentInfo{WorkspacePlace: &protocol.WorkspacePlace{Store: store}}, nil
			}, "one"})
			if lost := errors.Is(err, client.ErrTransportClosed); lost != (when != never) || err != nil && !lost {
				t.Errorf("%s, replaced %s: %v", name, when, err)
			}
			if asked == (when == before) {
				t.Errorf("%s, replaced %s: it was asked: %v", name, when, asked)
			}
			if name == "fetch" && when == during && peer.closed != 1 {
				t.Errorf("its stream was closed %d times", peer.closed)
			}
		}
	}
}
