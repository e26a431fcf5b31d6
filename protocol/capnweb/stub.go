package capnweb

import (
	"context"
	"reflect"
	"strings"
)

// A Stub refers to something to call: an object of the peer's, the result of a call before
// or after it is there, or an object of this end that came back. Calling what is not there
// yet costs no round trip.
//
// Whoever gets a Stub from Start, or in a decoded value, releases it. Arguments of a
// Method are released by themselves.
type Stub struct {
	s    *Session
	ref  any   // *promise, *Target or *pipe
	path []any // of a property of it
	view bool  // holds no reference
	err  error // of a call that could not be sent

	released bool // under the lock of s
	borrowed bool // belongs to the arguments of a call; likewise
	claimed  bool // was decoded to a place, by one goroutine
}

// split takes a dotted name apart. The empty name is the object itself.
func split(method string) []any {
	if method == "" {
		return nil
	}
	var path []any
	for part := range strings.SplitSeq(method, ".") {
		path = append(path, part)
	}
	return path
}

// At returns a property of what b refers to: a name, or an int for an item of an array,
// for each level. Nothing is sent before it is used. It is valid as long as b and need
// not be released.
func (b *Stub) At(path ...any) *Stub {
	to := &Stub{s: b.s, ref: b.ref, err: b.err, view: true, path: append([]any{}, b.path...)}
	for _, part := range path {
		switch v := reflect.ValueOf(part); {
		case v.Kind() == reflect.String:
			to.path = append(to.path, v.String())
		case v.CanInt():
			to.path = append(to.path, float64(v.Int()))
		case v.CanFloat():
			to.path = append(to.path, v.Float())
		default:
			to.err = typeErrorf("a %T in a path", part)
		}
	}
	return to
}

// Start starts a call of a method, by its name or with dots its path; "" calls what b
// refers to. The result is to be released. It does not wait for the answer, only for room
// to send. An error is that of the result.
func (b *Stub) Start(ctx context.Context, method string, args ...any) *Stub {
	if args == nil {
		args = []any{}
	}
	enc, err := encodeArgs(args)
	return b.start(ctx, split(method), enc, err)
}

func (b *Stub) start(ctx context.Context, path []any, enc *encoded, err error) *Stub {
	if b.err != nil {
		err = b.err
	}
	if err == nil {
		err = b.s.waitRoom(ctx)
	}
	if err != nil {
		return &Stub{s: b.s, err: err}
	}
	s := b.s
	enc.localize(s, false)
	s.lock()
	defer s.unlock()
	p, err := s.startHere(b, path, enc)
	if err != nil {
		return &Stub{s: s, err: err}
	}
	return s.stub(p)
}

// localize puts proxies in the place of stubs of other sessions, so that what follows
// needs the lock of s alone. With own the stubs are taken over.
func (enc *encoded) localize(s *Session, own bool) {
	for i, c := range enc.caps {
		if b, ok := c.v.(*Stub); ok && b.s != s && b.s != nil {
			if !own || b.borrowed {
				b = b.Dup()
			}
			enc.caps[i].v = b.proxy()
		}
	}
}

func (s *Session) startHere(b *Stub, path []any, enc *encoded) (*promise, error) {
	if s.ended != nil {
		return nil, s.ended
	}
	if b.released {
		return nil, ErrReleased
	}
	path = append(append([]any{}, b.path...), path...)
	if p, ok := b.ref.(*promise); ok && p.atPeer() {
		return s.sendCall(p, path, enc)
	}
	var args *evaluated
	if enc != nil {
		ev := enc.evaluator(nil)
		ev.take = func(v any) (any, error) { return s.take(ev, v) }
		list, err := ev.list(1)
		if err != nil {
			s.releaseAll(ev.owned)
			return nil, err
		}
		args = ev.result(list)
	}
	return s.invoke(b.ref, path, args), nil
}

// Call calls a method and waits for its result, which is decoded to what result points
// to; nil is for results that do not matter. When ctx ends first the call goes on at the
// peer.
func (b *Stub) Call(ctx context.Context, result any, method string, args ...any) error {
	p := b.Start(ctx, method, args...)
	defer p.Release()
	return p.Await(ctx, result)
}

// Await waits for the result of a call, or for the value of a property, and decodes it to
// what result points to. Stubs and streams in it belong to the caller, who gets them once.
func (b *Stub) Await(ctx context.Context, result any) error {
	if b.err != nil {
		return b.err
	}
	s := b.s
	p, err := b.awaited()
	if err != nil {
		return err
	}
	defer func() {
		s.lock()
		s.drop(p)
		s.unlock()
	}()
	if settled := s.settled(p); settled != nil {
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.done: // which may have settled it
			if s.settled(p) != nil {
				return s.Err()
			}
		}
	}
	return s.collect(p, result)
}

// settled is closed when p is; it is nil if p is already.
func (s *Session) settled(p *promise) chan struct{} {
	s.lock()
	defer s.unlock()
	if p.done || p.object {
		return nil
	}
	if p.settled == nil {
		p.settled = make(chan struct{})
	}
	s.pull(p)
	return p.settled
}

// awaited is what to wait for, with a reference to it.
func (b *Stub) awaited() (*promise, error) {
	s := b.s
	s.lock()
	defer s.unlock()
	if b.released {
		return nil, ErrReleased
	}
	p, ok := b.ref.(*promise)
	if !ok || len(b.path) > 0 {
		var err error
		if p, err = s.startHere(b, nil, nil); err != nil {
			return nil, err
		}
	}
	s.keep(p)
	return p, nil
}

// collect decodes the value of a settled promise.
func (s *Session) collect(p *promise, result any) error {
	s.lock()
	all := &evaluated{}
	var err error
	switch {
	case p.failed != nil:
		err = p.failed
	case p.hasDyn && p.enc == nil && !p.object: // from the peer
		all.v = p.dyn
		if !p.awaited {
			p.awaited = true
			all.owned, p.owned = p.owned, nil
		}
	default:
		if err = s.deliver(dependency{p, func(v any) { all.v = v }}, all); err != nil {
			s.releaseAll(all.owned)
		}
		s.callBytes -= all.charged
	}
	s.unlock()
	if err != nil {
		return err
	}
	if result != nil {
		err = assign(all.v, result)
	}
	if len(all.owned) == 0 {
		return err
	}
	s.lock()
	defer s.unlock()
	for _, v := range all.owned {
		if err != nil || !claimed(v) {
			s.releaseAll([]any{v})
		}
	}
	return err
}

func claimed(v any) bool {
	switch v := v.(type) {
	case *Stub:
		return v.claimed
	case *stream:
		return v.claimed
	case *Writer:
		return v.claimed
	}
	return false
}

// Dup returns another Stub of the same thing, to be released by itself.
func (b *Stub) Dup() *Stub {
	if b.err != nil {
		return b
	}
	b.s.lock()
	defer b.s.unlock()
	return b.s.dupStub(b)
}

func (s *Session) dupStub(b *Stub) *Stub {
	if b.released || b.err != nil || b.s != s {
		return &Stub{s: s, err: ErrReleased, released: true}
	}
	d := s.stub(b.ref)
	d.path = b.path
	return d
}

// proxy is an object that passes calls on to b, which it takes over.
func (b *Stub) proxy() *Target {
	t := NewTarget()
	t.proxied = b
	t.dispose = b.Release
	return t
}

// Release gives up the Stub. A call that has not answered goes on, but its answer goes
// nowhere.
func (b *Stub) Release() {
	if b == nil || b.s == nil || b.err != nil {
		return
	}
	b.s.lock()
	b.s.releaseStub(b)
	b.s.unlock()
}

func (s *Session) releaseStub(b *Stub) {
	if b.s != s {
		s.spawn(b.Release)
		return
	}
	if !b.view && !b.released && b.err == nil {
		b.released = true
		s.dropSubject(b.ref)
	}
}
