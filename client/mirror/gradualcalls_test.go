package mirror

import (
	"fmt"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// gradualCalls has the mirror of a pair count calls while it sends files in parts. Each part is
// at the remote before the next one is read.
func (p *pair) gradualCalls() *calls {
	s, peer := p.gradually(Both, nil)
	c := &calls{Peer: peer}
	arrived := make(chan struct{}, 100)
	peer.fn = func(int) { arrived <- struct{}{} }
	s.after = func() { <-arrived }
	cfg := p.m.cfg
	cfg.Remote = c
	p.m = New(cfg)
	p.m.limits.part = 2
	return c
}

// A push that is sent while the directory is read takes one call each for each part: no entry and
// no content moves twice, and content that the remote has does not move.
func TestCallsWhileItSettles(t *testing.T) {
	p := newPair(t)
	there := []byte("v3")
	if err := p.remote.server.PushObjects(t.Context(), changes.FromSlice([]tree.Data{{Hash: tree.Sum(there), Bytes: there}})); err != nil {
		t.Fatal(err)
	}
	c := p.gradualCalls()
	for i, text := range []string{"v0", "v1", "v0", "v3", "v1"} {
		p.local.write(fmt.Sprintf("d%d/f", i), text)
	}
	r, err := p.sync()
	if err != nil || !r.InStep || r.Pushed != 10 || r.ObjectsOut != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	// Of five parts two have content that no part had before and the remote lacks, and one has
	// content that it is asked about and has.
	c.want(t, "five parts", numbers{"watermarks": 2, "fetchChanges": 1, "hasObjects": 3, "pushObjects": 2, "out": 2, "push": 5})
	if r, err := p.sync(); err != nil || r.moved() || !r.InStep {
		t.Errorf("again: %+v, %v", r, err)
	}
	c.want(t, "nothing", numbers{"watermarks": 1})
	all := "d0/f=v0 d1/f=v1 d2/f=v0 d3/f=v3 d4/f=v1"
	p.want(all, all)
}

// What --watch does takes as few calls as a run: a look at this side asks the remote nothing,
// a change of this side is sent in one call each, and one of the remote fetched in one call each.
func TestCallsOfAWatch(t *testing.T) {
	for name, remote := range map[string]func(changes.Peer) changes.Peer{
		"wsd":   func(p changes.Peer) changes.Peer { return p },
		"plain": func(p changes.Peer) changes.Peer { return plainPeer{p} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			c := &calls{Peer: remote(w.remote.server)}
			w.cfg.Remote = c
			w.restart()
			w.sync()
			c.take()
			look := func(want bool, ask func() (bool, error), what string, calls numbers) {
				t.Helper()
				if got, err := ask(); got != want || err != nil {
					t.Errorf("%s: pending %v, %v", what, got, err)
				}
				c.want(t, what, calls)
			}
			here := func() (bool, error) { return w.m.LocalPending(t.Context()) }
			there := func() (bool, error) { return w.m.RemotePending(t.Context()) }
			await := func() (bool, error) { return true, w.m.AwaitRemote(t.Context()) }
			plain := name == "plain"
			// A remote that does not look at a base is asked again before each block.
			careful := func(n numbers) numbers {
				if plain {
					n["watermarks"]++
				}
				return n
			}
			for _, n := range []string{"1", "2"} {
				look(false, here, "nothing here", nil)
				look(false, there, "nothing there", numbers{"watermarks": 1})
				w.local.do("write /here/1 equal"+n, "write /here/2 equal"+n, "write /here/3 other"+n)
				look(true, here, "a change here", nil)
				w.sync()
				c.want(t, "a change here is sent", careful(numbers{"watermarks": 2, "hasObjects": 1, "pushObjects": 1, "out": 2, "push": 1}))
				w.local.do("mv /here /moved")
				look(true, here, "a rename here", nil)
				w.sync()
				c.want(t, "a rename here is sent", careful(numbers{"watermarks": 2, "hasObjects": 1, "push": 1}))
				w.remote.do("write /there/1 same"+n, "write /there/2 same"+n, "write /there/3 equal"+n)
				look(true, await, "a change there", numbers{"await": 1})
				w.sync()
				c.want(t, "a change there is fetched", numbers{"watermarks": 2, "fetchChanges": 1, "fetchObjects": 1, "in": 1, "push": 1})
				w.remote.do("rm /there", "rm /moved")
				look(true, there, "a removal there", numbers{"watermarks": 1})
				w.sync()
				c.want(t, "a removal there is fetched", numbers{"watermarks": 2, "fetchChanges": 1, "push": 1})
				w.same()
			}
		})
	}
}
