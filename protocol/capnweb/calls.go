package capnweb

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
)

// A lane starts the calls that this end serves, in the order in which they came.
type lane struct {
	waiting []*callState
	running int
	held    bool // an InOrder method runs that has not let others go on
}

// A callState is a call from the moment it was read to its answer.
type callState struct {
	p      *promise
	method *Method
	call   *Call
	args   *evaluated
	bytes  int // that it counts in callBytes
}

// The methods of a Session as a resolver.

func (s *Session) subject(id int64) (any, error) {
	e := s.exports[id]
	if e == nil {
		return nil, protocolErrorf("", "no such entry on exports table: %d", id)
	}
	return e.subject, nil
}

func (s *Session) imported(id int64, result bool) (any, error) {
	if id >= 0 {
		return nil, protocolErrorf("", "the number %d is not for the peer to give", id)
	}
	if p := s.imports[id]; p != nil {
		if result || !p.object {
			return nil, protocolErrorf("", "the export ID %d is used twice", id)
		}
		p.remote++
		return p, nil
	}
	if len(s.imports) >= s.max.imports {
		return nil, protocolErrorf("RangeError", "more than %d imports are held", s.max.imports)
	}
	p := &promise{s: s, imported: true, object: !result, id: id, remote: 1, pulled: true}
	s.imports[id] = p
	return p, nil
}

func (s *Session) readable(id int64) (*stream, error) {
	if e := s.exports[id]; e != nil {
		if p, ok := e.subject.(*pipe); ok && !p.taken {
			p.taken = true
			return &stream{src: p}, nil
		}
	}
	return nil, protocolErrorf("", "Export %d is not a pipe or its readable end was already consumed.", id)
}

func (s *Session) stub(subject any) *Stub {
	s.keepSubject(subject)
	return &Stub{s: s, ref: subject}
}

func (s *Session) invoke(subject any, path []any, args *evaluated) *promise {
	p := s.newPromise()
	s.start(p, subject, path, args)
	return p
}

// start begins a call, or with args nil the reading of a property, whose outcome is p's.
func (s *Session) start(p *promise, subject any, path []any, args *evaluated) {
	switch subject := subject.(type) {
	case *promise:
		if subject.atPeer() {
			s.forward(p, subject, path, args)
			return
		}
		s.when(subject, func() {
			if subject.failed != nil {
				s.refuse(p, args, subject.failed)
				return
			}
			s.walk(p, subject.peek(), path, args)
		})
	case *pipe:
		s.pipeCall(p, subject, path, args)
	default:
		s.walk(p, subject, path, args)
	}
}

// refuse ends a call that is not to be.
func (s *Session) refuse(p *promise, args *evaluated, err error) {
	if args != nil {
		s.discard(args)
	}
	s.fail(p, err)
}

// walk follows path from v and calls what is there, or with args nil reads it.
func (s *Session) walk(p *promise, v any, path []any, args *evaluated) {
	for i, part := range path {
		if stub, ok := v.(*Stub); ok {
			s.startStub(p, stub, path[i:], args)
			return
		}
		if t, ok := v.(*Target); ok && t.proxied != nil {
			s.startStub(p, t.proxied, path[i:], args)
			return
		}
		switch v.(type) {
		case Undefined, nil:
			s.refuse(p, args, typeErrorf("Cannot read properties of %s (reading '%s')", kindOf(v), quoteFor([]byte(partName(part)))))
			return
		}
		v = member(v, part)
	}
	if args == nil {
		enc, err := encode(v, s.cfg.MapError)
		if err != nil {
			s.fail(p, err)
			return
		}
		s.resolve(p, enc, false)
		return
	}
	switch v := v.(type) {
	case *Stub:
		s.startStub(p, v, nil, args)
		return
	case *Target:
		switch {
		case v.proxied != nil:
			s.startStub(p, v.proxied, nil, args)
			return
		case v.call != nil:
			s.enter(p, v.call, pathName(path), args)
			return
		}
	}
	s.refuse(p, args, typeErrorf("'%s' is not a function.", quoteFor([]byte(pathName(path)))))
}

// member is what the value v has under a name or number.
func member(v, part any) any {
	name := partName(part)
	if unreachable(name) {
		return Undefined{}
	}
	switch v := v.(type) {
	case *Target:
		return v.property(name)
	case Object:
		return v.Get(name)
	case []any:
		if n, ok := part.(float64); ok && n >= 0 && n < float64(len(v)) && n == math.Trunc(n) {
			return v[int(n)]
		}
	}
	return Undefined{}
}

func partName(part any) string {
	if n, ok := part.(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return part.(string)
}

func pathName(path []any) string {
	names := make([]string, len(path))
	for i, part := range path {
		names[i] = partName(part)
	}
	return strings.Join(names, ".")
}

// startStub goes on with a call at what a stub is about, here, at the peer, or at the peer
// of another session.
func (s *Session) startStub(p *promise, stub *Stub, path []any, args *evaluated) {
	if stub.s == s {
		s.start(p, stub.ref, append(append([]any{}, stub.path...), path...), args)
		return
	}
	if args == nil {
		args = &evaluated{}
	}
	s.keep(p)
	s.whenComplete(args, func(err error) {
		if err != nil {
			s.releaseAll(args.owned)
			s.fail(p, err)
			s.drop(p)
			return
		}
		s.spawn(func() {
			var out any
			list, _ := args.v.([]any)
			to := stub.At(path...)
			var err error
			if args.v == nil {
				err = to.Await(s.ctx, &out)
			} else {
				err = to.Call(s.ctx, &out, "", list...)
			}
			enc, encErr := encode(out, s.cfg.MapError)
			enc.localize(s, true)
			s.lock()
			defer s.unlock()
			s.releaseAll(args.owned)
			if err == nil {
				err = encErr
			}
			if err != nil {
				s.fail(p, err)
			} else {
				s.resolve(p, enc, true)
			}
			s.drop(p)
		})
	})
}

// forward sends a call on to the peer, whose object the subject is.
func (s *Session) forward(p, subject *promise, path []any, args *evaluated) {
	s.keep(p)
	s.keep(subject)
	send := func(enc *encoded) {
		q, err := s.sendCall(subject, path, enc)
		s.drop(subject)
		if err != nil {
			s.fail(p, err)
			s.drop(p)
			return
		}
		s.when(q, func() {
			if enc, err := q.encoding(); err != nil {
				s.fail(p, err)
			} else {
				s.resolve(p, enc, false)
			}
			s.drop(p)
		})
	}
	if args == nil {
		send(nil)
		return
	}
	s.whenComplete(args, func(err error) {
		var enc *encoded
		if err == nil {
			enc, err = encodeArgs(args.v.([]any))
		}
		if err != nil {
			s.releaseAll(args.owned)
			s.drop(subject)
			s.fail(p, err)
			s.drop(p)
			return
		}
		send(enc)
		s.releaseAll(args.owned)
	})
}

// enter puts a call into the lane once its arguments are there.
func (s *Session) enter(p *promise, m *Method, name string, args *evaluated) {
	if s.cfg.batch && m.Streams {
		s.refuse(p, args, &Error{Message: "streams cannot be answered over an HTTP batch", Code: CodeProtocol})
		return
	}
	c := &callState{p: p, method: m, args: args, bytes: args.bytes + callOverhead}
	c.call = &Call{session: s, method: name, inOrder: m.InOrder}
	if s.callBytes+c.bytes > s.max.callBytes {
		s.refuse(p, args, limitErrorf("more than %d bytes of calls are under way", s.max.callBytes))
		return
	}
	if s.memory.Over() {
		s.refuse(p, args, errShort)
		return
	}
	s.callBytes += c.bytes
	s.keep(p)
	s.whenComplete(args, func(err error) {
		if s.ended != nil {
			err = s.ended
		}
		if err != nil {
			s.finish(c, nil, err)
			return
		}
		// Results that went into the arguments have been counted by deliver.
		s.callBytes += args.bytes + callOverhead - c.bytes
		c.bytes = args.bytes + callOverhead
		s.lane.waiting = append(s.lane.waiting, c)
		s.pump()
	})
}

// pump starts the calls whose turn it is.
func (s *Session) pump() {
	for len(s.lane.waiting) > 0 && !s.lane.held && s.lane.running < s.max.running {
		c := s.lane.waiting[0]
		s.lane.waiting[0] = nil
		s.lane.waiting = s.lane.waiting[1:]
		s.lane.running++
		s.lane.held = c.method.InOrder
		c.call.Args, _ = c.args.v.([]any)
		for _, v := range c.args.owned {
			if stub, ok := v.(*Stub); ok {
				stub.borrowed = true
			}
		}
		s.spawn(func() { s.run(c) })
	}
}

// run serves a call.
func (s *Session) run(c *callState) {
	v, err := s.guarded(c)
	c.call.Go()
	var enc *encoded
	var taken int64 // until the session holds the result
	if err == nil {
		enc, err = encode(v, s.cfg.MapError)
		enc.localize(s, true)
		if err == nil {
			if n := int64(len(enc.text)); s.memory.Take(s.ctx, n) == nil {
				taken = n
			} else {
				err = errShort
			}
		}
		if err != nil {
			s.lock()
			s.releaseAll(s.adopt(enc, true))
			s.unlock()
			enc = nil
		}
	}
	var told *encoded
	if err != nil {
		if _, known := wireError(err, s.cfg.MapError); !known {
			s.log.Error("capnweb call failed", "method", c.call.method, "err", err)
		}
		told = encodeError(err, s.cfg.MapError)
	}
	s.lock()
	s.lane.running--
	c.p.failEnc = told
	s.finish(c, enc, err)
	s.pump()
	s.unlock()
	s.memory.Give(taken)
}

// guarded runs the method; a panic in it fails the call alone.
func (s *Session) guarded(c *callState) (v any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return c.method.Run(s.ctx, c.call)
}

// finish settles a call and lets go of its arguments.
func (s *Session) finish(c *callState, enc *encoded, err error) {
	s.callBytes -= c.bytes
	if err != nil {
		s.fail(c.p, err)
	} else {
		s.resolve(c.p, enc, true)
	}
	s.releaseAll(c.args.owned)
	c.args.owned = nil
	s.drop(c.p)
}

// deliver puts the result that a value waited for into its place. Who gets it gets
// references of its own.
func (s *Session) deliver(d dependency, all *evaluated) error {
	if d.on.object {
		stub := s.stub(d.on)
		all.owned = append(all.owned, stub)
		d.set(stub)
		return nil
	}
	enc, err := d.on.encoding()
	if err != nil {
		return err
	}
	if s.callBytes+len(enc.text) > s.max.callBytes {
		return limitErrorf("more than %d bytes of calls are under way", s.max.callBytes)
	}
	if s.memory.Over() {
		return errShort
	}
	// Counted here until all of the value is there, and then by what it is for.
	all.bytes += len(enc.text)
	all.charged += len(enc.text)
	s.callBytes += len(enc.text)
	ev := enc.evaluator(nil)
	ev.take = func(v any) (any, error) { return s.take(ev, v) }
	v, err := ev.value()
	all.owned = append(all.owned, ev.owned...)
	if err != nil {
		return err
	}
	d.set(v)
	return nil
}

// take makes a capability of a value into one of another's.
func (s *Session) take(ev *evaluator, v any) (any, error) {
	switch v := v.(type) {
	case *Target:
		return ev.own(s.stub(v)), nil
	case *Stub:
		if v.released {
			return nil, ErrReleased
		}
		return ev.own(s.dupStub(v)), nil
	case *stream:
		if !v.taken.CompareAndSwap(false, true) {
			return nil, ErrReleased
		}
		st := &stream{src: &localSource{v.src}, fixed: v.fixed}
		st.hold()
		ev.owned = append(ev.owned, st)
		return Stream[any]{st}, nil
	default:
		return nil, typeErrorf("a %T cannot be passed on", v)
	}
}

// localSource gives what a source here produces as a peer would have sent it.
type localSource struct{ src source }

func (l *localSource) next(ctx context.Context) (any, error) {
	v, err := l.src.next(ctx)
	if err != nil {
		return nil, err
	}
	enc, err := encode(v, nil)
	if err != nil {
		return nil, err
	}
	if len(enc.caps) > 0 {
		return nil, typeErrorf("a stream within a process cannot carry objects")
	}
	return enc.value(), nil
}

func (l *localSource) cancel(reason error) { l.src.cancel(reason) }
