package capnweb

// remap runs a program on each item of an array, or on a value that is none, here where
// the value is.
func (s *Session) remap(subject any, path []any, captures []any, program []byte) *promise {
	steps := 0
	return s.remapWithin(subject, path, captures, program, &steps)
}

func (s *Session) remapWithin(subject any, path []any, captures []any, program []byte, steps *int) *promise {
	p := s.newPromise()
	for _, c := range captures {
		s.keepSubject(c)
	}
	q := s.invoke(subject, path, nil)
	s.keep(p)
	s.when(q, func() {
		if q.failed != nil {
			s.fail(p, q.failed)
		} else {
			s.mapOver(p, q.peek(), captures, program, steps)
		}
		for _, c := range captures {
			s.dropSubject(c)
		}
		s.drop(p)
	})
	return p
}

func (s *Session) mapOver(p *promise, v any, captures []any, program []byte, steps *int) {
	all := &evaluated{}
	one := func(item any, set func(any)) error {
		r, err := s.mapItem(item, captures, program, steps)
		if err == nil {
			all.deps = append(all.deps, dependency{r, set})
		}
		return err
	}
	var err error
	switch v := v.(type) {
	case nil, Undefined:
		all.v = v
	case []any:
		out := make([]any, len(v))
		all.v = out
		for i := range v {
			if err = one(v[i], func(v any) { out[i] = v }); err != nil {
				break
			}
		}
	default:
		err = one(v, func(v any) { all.v = v })
	}
	if err != nil {
		s.discard(all)
		s.fail(p, err)
		return
	}
	s.keep(p)
	s.whenComplete(all, func(err error) {
		if err != nil {
			s.releaseAll(all.owned)
			s.fail(p, err)
		} else {
			s.resolveWith(p, all.v, all.owned)
		}
		s.drop(p)
	})
}

// mapItem runs the program on one item and returns the result of its last instruction.
func (s *Session) mapItem(item any, captures []any, program []byte, steps *int) (*promise, error) {
	input := s.newPromise()
	enc, err := encode(item, s.cfg.MapError)
	if err != nil {
		return nil, err
	}
	s.keep(input)
	s.resolve(input, enc, false)
	m := &mapResolver{Session: s, captures: captures, variables: []*promise{input}, steps: steps}
	defer func() {
		for _, v := range m.variables {
			s.later(func() { s.drop(v) })
		}
	}()
	c := cursor{text: program}
	for c.pos++; c.item(); {
		text := c.skip()
		if *steps += 1 + len(text)/64; *steps > MaxMapSteps {
			return nil, limitErrorf("a map of more than %d steps", MaxMapSteps)
		}
		ev := &evaluator{cursor: cursor{text: text}, res: m}
		r, err := s.expression(ev)
		if err != nil {
			s.releaseAll(ev.owned)
			return nil, err
		}
		s.keep(r)
		m.variables = append(m.variables, r)
	}
	if len(m.variables) == 1 {
		return nil, &Error{Message: "Invalid empty mapper function."}
	}
	return m.variables[len(m.variables)-1], nil
}

// A mapResolver gives the numbers in a program their meaning: what it captured when
// negative, else its input and the results of its instructions.
type mapResolver struct {
	*Session
	captures  []any
	variables []*promise
	steps     *int
}

func (m *mapResolver) subject(id int64) (any, error) {
	switch {
	case id < 0 && -id <= int64(len(m.captures)):
		return m.captures[-id-1], nil
	case id >= 0 && id < int64(len(m.variables)):
		return m.variables[id], nil
	}
	return nil, typeErrorf("no such entry on exports table: %d", id)
}

func (m *mapResolver) imported(int64, bool) (any, error) {
	return nil, &Error{Message: "A mapper function cannot refer to exports."}
}

func (m *mapResolver) readable(int64) (*stream, error) {
	return nil, &Error{Message: "A mapper function cannot use pipe readables."}
}

func (m *mapResolver) remap(subject any, path []any, captures []any, program []byte) *promise {
	return m.remapWithin(subject, path, captures, program, m.steps)
}
