package capnweb

// id reads a number that stands in a table.
func (ev *evaluator) id() (int64, bool) {
	if b := ev.peek(); b != '-' && (b < '0' || b > '9') {
		return 0, false
	}
	return integer(ev.number())
}

// path reads a list of names and numbers.
func (ev *evaluator) path() ([]any, bool) {
	if ev.peek() != '[' {
		return nil, false
	}
	ev.pos++
	path := []any{}
	for ev.item() {
		switch b := ev.peek(); {
		case b == '"':
			path = append(path, text(ev.str()))
		case b == '-' || '0' <= b && b <= '9':
			path = append(path, ev.number())
		default:
			return nil, false
		}
	}
	return path, true
}

// reference reads what follows ["import" or ["pipeline": a number, perhaps a path, perhaps
// arguments.
func (ev *evaluator) reference(wait bool, depth int) (any, *promise, bool, error) {
	if !ev.more() {
		return nil, nil, false, nil
	}
	id, ok := ev.id()
	if !ok {
		return nil, nil, false, nil
	}
	if ev.local != nil {
		v, err := ev.take(ev.local[id].v)
		return v, nil, err == nil, err
	}
	if ev.res == nil {
		return nil, nil, false, errNoSession
	}
	subject, err := ev.res.subject(id)
	if err != nil {
		return nil, nil, false, err
	}
	if !ev.more() {
		if p, isPromise := subject.(*promise); isPromise && wait {
			return nil, p, true, nil
		}
		return ev.own(ev.res.stub(subject)), nil, true, nil
	}
	path, ok := ev.path()
	if !ok {
		return nil, nil, false, nil
	}
	var args *evaluated
	if ev.more() {
		if ev.peek() != '[' {
			return nil, nil, false, nil
		}
		inner := evaluator{cursor: ev.cursor, res: ev.res}
		from := inner.pos
		list, err := inner.list(depth + 1)
		if err != nil {
			ev.owned = append(ev.owned, inner.owned...)
			return nil, nil, false, err
		}
		ev.pos = inner.pos
		args = inner.result(list)
		args.bytes = ev.pos - from
	}
	if ev.peek() != ']' {
		if args != nil {
			ev.owned = append(ev.owned, args.owned...)
		}
		return nil, nil, false, nil
	}
	p := ev.res.invoke(subject, path, args)
	if wait {
		return nil, p, true, nil
	}
	return ev.own(ev.res.stub(p)), nil, true, nil
}

func (ev *evaluator) own(s *Stub) *Stub {
	ev.owned = append(ev.owned, s)
	return s
}

var errNoSession = typeErrorf("objects, calls and streams cannot be received without a session")

// exported reads what follows ["export" or ["promise".
func (ev *evaluator) exported(wait bool) (any, *promise, bool, error) {
	if !ev.more() {
		return nil, nil, false, nil
	}
	id, ok := ev.id()
	if !ok {
		return nil, nil, false, nil
	}
	if ev.res == nil {
		return nil, nil, false, errNoSession
	}
	subject, err := ev.res.imported(id, wait)
	if err != nil {
		return nil, nil, false, err
	}
	s := ev.own(ev.res.stub(subject))
	if wait {
		return nil, subject.(*promise), true, nil
	}
	return s, nil, true, nil
}

func (ev *evaluator) writable() (any, bool, error) {
	v, _, ok, err := ev.exported(false)
	if !ok || err != nil {
		return nil, ok, err
	}
	ev.owned = ev.owned[:len(ev.owned)-1]
	w := newWriter(v.(*Stub))
	ev.owned = append(ev.owned, w)
	return w, true, nil
}

func (ev *evaluator) readable() (any, bool, error) {
	if !ev.more() {
		return nil, false, nil
	}
	id, ok := ev.id()
	if !ok {
		return nil, false, nil
	}
	if ev.res == nil {
		return nil, false, errNoSession
	}
	st, err := ev.res.readable(id)
	if err != nil {
		return nil, false, err
	}
	st.hold()
	ev.owned = append(ev.owned, st)
	return Stream[any]{st}, true, nil
}

// remap reads what follows ["remap": a number, a path, captures and instructions. The
// instructions are read when there is something to apply them to.
func (ev *evaluator) remap() (any, *promise, bool, error) {
	if !ev.more() {
		return nil, nil, false, nil
	}
	id, ok := ev.id()
	if !ok || !ev.more() {
		return nil, nil, false, nil
	}
	path, ok := ev.path()
	if !ok || !ev.more() || ev.peek() != '[' {
		return nil, nil, false, nil
	}
	if ev.res == nil {
		return nil, nil, false, errNoSession
	}
	subject, err := ev.res.subject(id)
	if err != nil {
		return nil, nil, false, err
	}
	ev.pos++
	captures := []any{}
	for ev.item() {
		c, err := ev.capture()
		if err != nil {
			return nil, nil, false, err
		}
		captures = append(captures, c)
	}
	if !ev.more() || ev.peek() != '[' {
		return nil, nil, false, nil
	}
	program := append([]byte(nil), ev.skip()...)
	if ev.peek() != ']' {
		return nil, nil, false, nil
	}
	return nil, ev.res.remap(subject, path, captures, program), true, nil
}

// capture reads ["import",id] or ["export",id].
func (ev *evaluator) capture() (any, error) {
	start := ev.pos
	if ev.peek() == '[' {
		ev.pos++
		if ev.peek() == '"' {
			kind := string(ev.str())
			if ev.more() {
				if id, ok := ev.id(); ok && ev.accept(']') {
					switch kind {
					case "import":
						return ev.res.subject(id)
					case "export":
						v, err := ev.res.imported(id, false)
						if err == nil {
							ev.own(ev.res.stub(v))
						}
						return v, err
					}
				}
			}
		}
	}
	ev.pos = start
	return nil, protocolErrorf("TypeError", "unknown map capture: %s", quoteFor(ev.skip()))
}
