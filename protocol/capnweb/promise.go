package capnweb

// A promise is something that has or will have a value: a call that runs here, a call
// that runs at the peer, or, with object, an object of the peer's, which stays what it
// is. Its fields are under the lock of its session.
type promise struct {
	s    *Session
	refs int // who holds it: exports, stubs, those that wait

	done    bool
	failed  error
	failEnc *encoded // failed as text; nil until it is needed
	enc     *encoded // the value as text; nil until it is needed, if dyn is set
	dyn     any      // the decoded value, with the capabilities of enc as they are
	hasDyn  bool
	owned   []any // released with the value
	size    int   // that it counts in heldBytes
	waiters []func()
	settled chan struct{} // closed when done; nil if nobody waits on it

	// At the peer, while imported.
	imported bool
	object   bool
	id       int64
	remote   int64 // references that the peer will have released
	pulled   bool
	awaited  bool            // its value was handed over
	onAnswer func(err error) // of a stream's frame, instead of all the above
}

func (s *Session) newPromise() *promise { return &promise{s: s} }

// atPeer reports whether calls on p go to the peer.
func (p *promise) atPeer() bool { return p.imported && !p.done }

func (s *Session) keep(p *promise) { p.refs++ }

// drop gives up one reference. What nobody refers to is released: at the peer, or with
// what its value holds.
func (s *Session) drop(p *promise) {
	if p.refs--; p.refs > 0 || p == s.main {
		return
	}
	switch {
	case p.done:
		s.heldBytes -= p.size
		p.size = 0
		s.releaseAll(p.owned)
		p.owned = nil
	case p.imported:
		s.releaseImport(p)
		p.imported = false
		p.done, p.failed = true, ErrReleased
	}
}

// releaseImport tells the peer that p is not needed.
func (s *Session) releaseImport(p *promise) {
	if s.imports[p.id] == p {
		delete(s.imports, p.id)
		s.send(appendIDs(`["release",`, p.id, p.remote))
	}
}

// when runs f under the lock once p is settled, and sees to it that it will be.
func (s *Session) when(p *promise, f func()) {
	if p.done || p.object {
		s.keep(p)
		s.later(func() { f(); s.drop(p) })
		return
	}
	s.keep(p)
	p.waiters = append(p.waiters, func() { f(); s.drop(p) })
	s.pull(p)
}

// pull asks the peer for the value of p.
func (s *Session) pull(p *promise) {
	if p.atPeer() && !p.pulled && !p.object {
		p.pulled = true
		s.send(appendID(`["pull",`, p.id))
	}
}

// resolve gives p a value as text. With own, the stubs in it become p's; else p gets its
// own.
func (s *Session) resolve(p *promise, enc *encoded, own bool) {
	p.enc = enc
	p.owned = s.adopt(enc, own)
	p.size = len(enc.text)
	s.settle(p)
}

// fail gives p an error.
func (s *Session) fail(p *promise, err error) {
	if p.done {
		return
	}
	p.failed = err
	s.settle(p)
}

func (s *Session) settle(p *promise) {
	p.done = true
	s.heldBytes += p.size
	for _, f := range p.waiters {
		s.later(f)
	}
	p.waiters = nil
	if p.settled != nil {
		close(p.settled)
		p.settled = nil
	}
	s.keep(p) // for as long as whoever made it has not taken a reference
	s.later(func() { s.drop(p) })
	if s.heldBytes > s.max.heldBytes {
		err := protocolErrorf("RangeError", "more than %d bytes of results are held", s.max.heldBytes)
		s.end(err, err)
	}
}

// encoding is the value of p as text.
func (p *promise) encoding() (*encoded, error) {
	if p.failed != nil {
		return nil, p.failed
	}
	if p.enc == nil {
		enc, err := encode(p.dyn, nil)
		if err != nil {
			return nil, err
		}
		p.enc = enc
	}
	return p.enc, nil
}

// peek is the value of p, decoded, with its capabilities as they are.
func (p *promise) peek() any {
	if !p.hasDyn {
		p.dyn, p.hasDyn = p.enc.value(), true
	}
	return p.dyn
}

// value decodes text of ours, leaving its capabilities as they are.
func (enc *encoded) value() any {
	ev := enc.evaluator(func(v any) (any, error) {
		if st, ok := v.(*stream); ok {
			return Stream[any]{st}, nil
		}
		return v, nil
	})
	v, err := ev.value()
	if err != nil { // of what was encoded here
		return Undefined{}
	}
	return v
}

// evaluator reads the text with its gaps filled.
func (enc *encoded) evaluator(take func(any) (any, error)) *evaluator {
	var text []byte
	from := 0
	for i, c := range enc.caps {
		text = append(text, enc.text[from:c.at]...)
		text = appendID(string(append(text, `["import",`...)), int64(i))
		from = c.at
	}
	text = append(text, enc.text[from:]...)
	ev := &evaluator{cursor: cursor{text: text}, local: enc.caps, take: take}
	if ev.local == nil {
		ev.local = []capability{}
	}
	return ev
}

// adopt takes references to what enc holds, which releaseAll gives up. With own, stubs
// are taken over, unless they are the arguments of a call, which takes them back.
func (s *Session) adopt(enc *encoded, own bool) []any {
	var owned []any
	for i, c := range enc.caps {
		switch v := c.v.(type) {
		case *Target:
			v.retain()
		case *Stub:
			if !own || v.borrowed {
				v = s.dupStub(v)
				enc.caps[i].v = v
			}
			c.v = v
		case *stream:
			v.hold()
		default:
			continue
		}
		owned = append(owned, c.v)
	}
	return owned
}

// releaseAll releases what a value held.
func (s *Session) releaseAll(owned []any) {
	for _, v := range owned {
		switch v := v.(type) {
		case *Target:
			s.dropSubject(v)
		case *Stub:
			s.releaseStub(v)
		case *Writer:
			v.letGo(s)
		case *stream:
			if v.letGo() {
				s.spawn(func() { v.src.cancel(ErrNotConsumed) })
			}
		}
	}
}

// keepSubject takes a reference to something that an export or a stub is about.
func (s *Session) keepSubject(subject any) {
	switch v := subject.(type) {
	case *Target:
		v.retain()
	case *promise:
		s.keep(v)
	}
}

func (s *Session) dropSubject(subject any) {
	switch v := subject.(type) {
	case *Target:
		if v.release() {
			s.spawn(v.dispose)
		}
	case *promise:
		s.drop(v)
	case *pipe:
		s.pipeReleased(v)
	}
}
