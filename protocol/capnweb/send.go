package capnweb

import "strconv"

// fill makes a message of text with the numbers of its capabilities, between a head and
// a tail. The frames that must come before it are queued.
func (s *Session) fill(enc *encoded, head, tail string) ([]byte, error) {
	if len(enc.caps) == 0 {
		return enc.frame(head, tail), nil
	}
	text := append(make([]byte, 0, len(head)+len(enc.text)+32*len(enc.caps)), head...)
	var undo []func()
	from := 0
	for _, c := range enc.caps {
		text = append(text, enc.text[from:c.at]...)
		from = c.at
		var err error
		if text, err = s.appendCap(text, c.v, &undo); err != nil {
			for _, f := range undo {
				f()
			}
			return nil, err
		}
	}
	return append(append(text, enc.text[from:]...), tail...), nil
}

func (s *Session) appendCap(text []byte, v any, undo *[]func()) ([]byte, error) {
	switch v := v.(type) {
	case *Target:
		id, err := s.exportTarget(v)
		if err != nil {
			return nil, err
		}
		*undo = append(*undo, func() { _ = s.released(id, 1) })
		return appendID(string(append(text, `["export",`...)), id), nil
	case *Stub:
		return s.appendStub(text, v, undo)
	case *stream:
		return s.appendStream(text, v, undo)
	case *Sink:
		p, err := v.attach(s)
		if err != nil {
			return nil, err
		}
		id, err := s.exportOwn(p)
		if err != nil {
			return nil, err
		}
		*undo = append(*undo, func() { _ = s.released(id, 1) })
		return appendID(string(append(text, `["writable",`...)), id), nil
	default:
		return nil, typeErrorf("Cannot serialize value: %T", v)
	}
}

// exportOwn gives subject a number of this end's own.
func (s *Session) exportOwn(subject any) (int64, error) {
	id := s.nextOwn
	s.nextOwn--
	return id, s.addExport(id, &export{subject: subject, refs: 1})
}

// exportTarget gives t its number, the same as long as the peer holds it.
func (s *Session) exportTarget(t *Target) (int64, error) {
	if id, ok := s.byTarget[t]; ok {
		s.exports[id].refs++
		return id, nil
	}
	id, err := s.exportOwn(t)
	if err == nil {
		s.byTarget[t] = id
	}
	return id, err
}

func (s *Session) appendStub(text []byte, v *Stub, undo *[]func()) ([]byte, error) {
	if v.released || v.err != nil || v.s != s {
		return nil, ErrReleased
	}
	switch ref := v.ref.(type) {
	case *Target:
		if len(v.path) == 0 {
			return s.appendCap(text, ref, undo)
		}
	case *promise:
		if ref.atPeer() {
			kind := `["pipeline",`
			if ref.object && len(v.path) == 0 {
				kind = `["import",`
			}
			text = strconv.AppendInt(append(text, kind...), ref.id, 10)
			if len(v.path) > 0 {
				text = appendPath(append(text, ','), v.path)
			}
			return append(text, ']'), nil
		}
	}
	p, _ := v.ref.(*promise)
	if p == nil || len(v.path) > 0 {
		p = s.invoke(v.ref, v.path, nil)
	}
	id, err := s.exportOwn(p)
	if err != nil {
		return nil, err
	}
	*undo = append(*undo, func() { _ = s.released(id, 1) })
	if err := s.pulledBy(id); err != nil {
		return nil, err
	}
	return appendID(string(append(text, `["promise",`...)), id), nil
}

func appendPath(text []byte, path []any) []byte {
	text = append(text, '[')
	for i, part := range path {
		if i > 0 {
			text = append(text, ',')
		}
		if n, ok := part.(float64); ok {
			text = strconv.AppendFloat(text, n, 'f', -1, 64)
		} else {
			text = appendString(text, part.(string))
		}
	}
	return append(text, ']')
}

// appendStream opens a pipe to the peer and starts sending the stream.
func (s *Session) appendStream(text []byte, st *stream, undo *[]func()) ([]byte, error) {
	if s.cfg.batch {
		return nil, &Error{Message: "streams cannot be answered over an HTTP batch", Code: CodeProtocol}
	}
	if s.ended != nil {
		return nil, s.ended
	}
	if !st.taken.CompareAndSwap(false, true) {
		return nil, ErrReleased
	}
	s.add([]byte(`["pipe"]`))
	id := s.nextImport
	s.nextImport++
	p := &promise{s: s, imported: true, object: true, id: id, remote: 1}
	s.imports[id] = p
	s.keep(p)
	out := newOutflow(s, p, st.fixed)
	s.spawn(func() { out.pump(st.src) })
	*undo = append(*undo, func() { out.stop(&Error{Message: "the stream was not delivered"}) })
	return appendID(string(append(text, `["readable",`...)), id), nil
}

// sendCall sends a call to the peer, or with args nil the reading of a property. Who gets
// the promise holds no reference to it yet.
func (s *Session) sendCall(subject *promise, path []any, args *encoded) (*promise, error) {
	if s.ended != nil {
		return nil, s.ended
	}
	if s.cfg.batch {
		return nil, errBatchEnded
	}
	head := string(appendPath(append(strconv.AppendInt([]byte(`["push",["pipeline",`), subject.id, 10), ','), path))
	if args == nil {
		args = &encoded{}
	} else {
		head += ","
	}
	return s.sendPush(head, args, "]]")
}

// sendPush queues a push and takes its number.
func (s *Session) sendPush(head string, args *encoded, tail string) (*promise, error) {
	text, err := s.fill(args, head, tail)
	if err != nil {
		return nil, err
	}
	p := &promise{s: s, imported: true, id: s.nextImport, remote: 1}
	s.imports[p.id] = p
	s.nextImport++
	s.add(text)
	if s.cfg.autoPull {
		s.pull(p)
	}
	return p, nil
}
