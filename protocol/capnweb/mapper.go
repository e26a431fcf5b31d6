package capnweb

import (
	"context"
	"strconv"
)

// A Mapper records what Stub.Map does with each item.
type Mapper struct {
	program  []byte
	next     int // the number of the next instruction's result
	captures []*Stub
	err      error
}

// A Var stands for a value that the peer will have while it maps: the item, or what an
// instruction gave.
type Var struct {
	m  *Mapper
	id int
}

// Map has the peer replace each item of the array that b refers to, or the value itself
// if it is no array, and returns the result, which is to be released. The function runs
// once, here: it says with v and m what to do and returns the new item, which may contain
// Vars and Stubs.
func (b *Stub) Map(ctx context.Context, f func(m *Mapper, item Var) any) *Stub {
	m := &Mapper{program: []byte{'['}, next: 1}
	result := f(m, Var{m, 0})
	m.add(result, "", "")
	m.program = append(m.program, ']')
	err := m.err
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
	s.lock()
	defer s.unlock()
	p, err := s.startMap(b, m)
	if err != nil {
		return &Stub{s: s, err: err}
	}
	return s.stub(p)
}

func (s *Session) startMap(b *Stub, m *Mapper) (*promise, error) {
	if s.ended != nil {
		return nil, s.ended
	}
	p, ok := b.ref.(*promise)
	if b.released || !ok {
		return nil, ErrReleased
	}
	if !p.atPeer() {
		subjects := make([]any, len(m.captures))
		for i, c := range m.captures {
			subjects[i] = c.ref
		}
		return s.remap(p, b.path, subjects, m.program), nil
	}
	enc := &encoded{}
	for i, c := range m.captures {
		if i > 0 {
			enc.text = append(enc.text, ',')
		}
		subject, ok := c.ref.(*promise)
		switch {
		case c.s != s || c.released || len(c.path) > 0:
			return nil, ErrReleased
		case ok && subject.atPeer():
			enc.text = appendID(string(append(enc.text, `["import",`...)), subject.id)
		default:
			enc.caps = append(enc.caps, capability{len(enc.text), c})
		}
	}
	head := strconv.AppendInt([]byte(`["push",["remap",`), p.id, 10)
	head = append(appendPath(append(head, ','), b.path), ",["...)
	return s.sendPush(string(head), enc, "],"+string(m.program)+"]]")
}

// Call calls a method of a Stub, or with another Var of a Var, for each item.
func (m *Mapper) Call(on any, method string, args ...any) Var {
	if args == nil {
		args = []any{}
	}
	enc, err := encodeArgs(args)
	m.fail(err)
	return m.instruct(on, split(method), enc)
}

// At reads a property of v.
func (v Var) At(path ...any) Var {
	to := (&Stub{}).At(path...)
	v.m.fail(to.err)
	return v.m.instruct(v, to.path, nil)
}

// Call calls a method of v.
func (v Var) Call(method string, args ...any) Var { return v.m.Call(v, method, args...) }

func (m *Mapper) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *Mapper) instruct(on any, path []any, args *encoded) Var {
	id, ok := m.number(on)
	if !ok {
		m.fail(typeErrorf("a %T cannot be called in a map", on))
	}
	head := string(appendPath(append(strconv.AppendInt([]byte(`["pipeline",`), int64(id), 10), ','), path))
	if args != nil {
		m.fill(args, head+",", "]")
	} else {
		m.fill(&encoded{}, head, "]")
	}
	m.next++
	return Var{m, m.next - 1}
}

// add adds an instruction that is a value.
func (m *Mapper) add(v any, head, tail string) {
	enc, err := encode(v, nil)
	m.fail(err)
	m.fill(enc, head, tail)
}

func (m *Mapper) fill(enc *encoded, head, tail string) {
	if len(m.program) > 1 {
		m.program = append(m.program, ',')
	}
	m.program = append(m.program, head...)
	from := 0
	for _, c := range enc.caps {
		m.program = append(m.program, enc.text[from:c.at]...)
		from = c.at
		id, ok := m.number(c.v)
		if !ok {
			m.fail(typeErrorf("a %T cannot be used in a map", c.v))
		}
		kind := `["pipeline",`
		if _, isStub := c.v.(*Stub); isStub {
			kind = `["import",`
		}
		m.program = appendID(string(append(m.program, kind...)), int64(id))
	}
	m.program = append(append(m.program, enc.text[from:]...), tail...)
}

// number is what a Var or a Stub is called in the program.
func (m *Mapper) number(v any) (int, bool) {
	switch v := v.(type) {
	case Var:
		return v.id, v.m == m
	case *Stub:
		for i, c := range m.captures {
			if c == v {
				return -i - 1, true
			}
		}
		m.captures = append(m.captures, v)
		return -len(m.captures), v.err == nil && v.s != nil
	}
	return 0, false
}
