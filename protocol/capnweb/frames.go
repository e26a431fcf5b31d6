package capnweb

import (
	"fmt"
	"strconv"
)

// handle does what one message of the peer's says. Its error ends the session.
func (s *Session) handle(msg []byte) error {
	if len(msg) > MaxMessageBytes {
		return ErrTooLarge
	}
	if err := check(msg); err != nil {
		return protocolErrorf("SyntaxError", "%v", err)
	}
	s.lock()
	defer s.unlock()
	if s.ended != nil {
		return nil
	}
	ev := evaluator{cursor: cursor{text: msg}, res: s}
	ok, err := s.message(&ev)
	if err == nil && !ok {
		err = protocolErrorf("", "bad RPC message: %s", quoteFor(msg))
	}
	if err != nil { // everything goes, and so does what this message brought
		s.end(err, err)
		s.releaseAll(ev.owned)
	}
	return err
}

func (s *Session) message(ev *evaluator) (ok bool, err error) {
	if ev.peek() != '[' {
		return false, nil
	}
	ev.pos++
	if ev.peek() != '"' {
		return false, nil
	}
	switch string(ev.str()) {
	case "push":
		return s.pushed(ev, false)
	case "stream":
		return s.pushed(ev, true)
	case "pipe":
		return true, s.export(newPipe(s), false)
	case "pull":
		if id, ok := s.idItem(ev); ok {
			return true, s.pulledBy(id)
		}
	case "resolve":
		return s.answer(ev, false)
	case "reject":
		return s.answer(ev, true)
	case "release":
		id, ok1 := s.idItem(ev)
		if n, ok2 := s.idItem(ev); ok1 && ok2 && n >= 0 {
			return true, s.released(id, n)
		}
	case "abort":
		if ev.more() {
			v, err := ev.value()
			if err == nil {
				s.releaseAll(ev.owned)
				s.end(&AbortError{thrown(v)}, nil)
			}
			return true, err
		}
	}
	return false, nil
}

// thrown is the error for a value that was thrown.
func thrown(v any) error {
	if e, ok := v.(*Error); ok {
		return e
	}
	return &Thrown{v}
}

// idItem reads the next item of a message, a number.
func (s *Session) idItem(ev *evaluator) (int64, bool) {
	if !ev.more() {
		return 0, false
	}
	return ev.id()
}

// pushed gives the expression of a push or stream the peer's next number.
func (s *Session) pushed(ev *evaluator, stream bool) (bool, error) {
	if !ev.more() {
		return false, nil
	}
	p, err := s.expression(ev)
	if err != nil {
		return true, err
	}
	id := s.nextExport
	if err := s.export(p, stream); err != nil {
		return true, err
	}
	if stream {
		return true, s.pulledBy(id)
	}
	return true, nil
}

// expression reads an expression as something that will have a value.
func (s *Session) expression(ev *evaluator) (*promise, error) {
	v, dep, err := ev.place(0)
	if err != nil {
		return nil, err
	}
	if dep != nil && len(ev.owned) == 0 && ev.soft == nil {
		return dep, nil
	}
	p := s.newPromise()
	all := ev.result(v)
	if dep != nil {
		all.deps = append(all.deps, dependency{dep, func(v any) { all.v = v }})
	}
	s.whenComplete(all, func(err error) {
		if err != nil {
			s.releaseAll(all.owned)
			s.fail(p, err)
			return
		}
		s.resolveWith(p, all.v, all.owned)
	})
	return p, nil
}

// resolveWith gives p a decoded value and what it holds.
func (s *Session) resolveWith(p *promise, v any, owned []any) {
	p.dyn, p.hasDyn, p.owned = v, true, owned
	enc, err := p.encoding()
	if err == nil && s.memory.Over() {
		err, p.enc = errShort, nil
	}
	if err != nil {
		s.releaseAll(owned)
		p.dyn, p.owned = nil, nil
		s.fail(p, err)
		return
	}
	p.size = len(enc.text)
	if len(enc.caps) == 0 && p.size > keptText {
		p.enc = nil // it is encoded anew when it is needed, lest it be held twice
	}
	s.settle(p)
}

// keptText bounds the text that is kept of a value which is kept decoded.
const keptText = 4 << 10

// export gives subject the peer's next number.
func (s *Session) export(subject any, auto bool) error {
	id := s.nextExport
	s.nextExport++
	return s.addExport(id, &export{subject: subject, refs: 1, auto: auto})
}

func (s *Session) addExport(id int64, e *export) error {
	if len(s.exports) >= s.max.exports {
		return protocolErrorf("RangeError", "more than %d exports are held", s.max.exports)
	}
	if len(s.exports) >= shareExports && s.memory.Over() {
		return protocolErrorf("RangeError", "more than %d exports are held while memory is in use by others", shareExports)
	}
	s.keepSubject(e.subject)
	s.exports[id] = e
	return nil
}

// pulledBy answers the export with that number, once.
func (s *Session) pulledBy(id int64) error {
	e := s.exports[id]
	if e == nil {
		return protocolErrorf("", "no such export ID: %d", id)
	}
	if e.pulled {
		return nil
	}
	e.pulled = true
	s.unanswered++
	switch subject := e.subject.(type) {
	case *promise:
		s.when(subject, func() { s.reply(id, e, subject) })
	case *Target:
		p := s.newPromise()
		s.keep(p)
		s.resolve(p, &encoded{caps: []capability{{0, subject}}}, false)
		s.reply(id, e, p)
		s.drop(p)
	default:
		p := s.newPromise()
		p.done, p.failed = true, &Error{Message: "Cannot pull a WritableStream stub"}
		s.reply(id, e, p)
	}
	return nil
}

// reply sends what became of an export, when there is room for it.
func (s *Session) reply(id int64, e *export, p *promise) {
	if s.ended != nil {
		return
	}
	if s.full() && !s.cfg.batch {
		s.keep(p)
		s.spawn(func() {
			err := s.waitRoom(s.ctx)
			s.lock()
			if err == nil {
				s.reply(id, e, p)
			}
			s.drop(p)
			s.unlock()
		})
		return
	}
	if s.exports[id] == e {
		s.add(s.replyFrame(id, p))
		if s.cfg.batch && s.out.bytes > s.max.batchAnswer {
			s.end(fmt.Errorf("capnweb: an answer of more than %d bytes", s.max.batchAnswer), nil)
			return
		}
		if e.auto {
			_ = s.released(id, 1)
		}
	}
	if s.unanswered--; s.unanswered == 0 && s.answered != nil {
		close(s.answered)
		s.answered = nil
	}
}

// undefinedValue is what calls without a result answer.
var undefinedValue = &encoded{text: []byte(`["undefined"]`)}

func (s *Session) replyFrame(id int64, p *promise) []byte {
	enc, err := p.encoding()
	if err == nil {
		var text []byte
		if text, err = s.fill(enc, `["resolve",`+strconv.FormatInt(id, 10)+`,`, `]`); err == nil {
			return text
		}
	}
	if p.failed != err || p.failEnc == nil { //nolint:errorlint // the same error
		return s.rejectFrame(id, encodeError(err, s.cfg.MapError))
	}
	return s.rejectFrame(id, p.failEnc)
}

func (s *Session) rejectFrame(id int64, enc *encoded) []byte {
	head := `["reject",` + strconv.FormatInt(id, 10) + `,`
	text, err := s.fill(enc, head, `]`)
	if err != nil {
		text, _ = s.fill(encodeError(err, nil), head, `]`)
	}
	return text
}

// answer takes the peer's answer to what it was asked.
func (s *Session) answer(ev *evaluator, reject bool) (bool, error) {
	id, ok := s.idItem(ev)
	if !ok || !ev.more() {
		return false, nil
	}
	p := s.imports[id]
	if p != nil && (p.object || id == 0) {
		p = nil // it has no value to come
	}
	v, dep, err := ev.place(0)
	if err != nil {
		return true, err
	}
	all := ev.result(v)
	if dep != nil {
		all.deps = append(all.deps, dependency{dep, func(v any) { all.v = v }})
	}
	switch {
	case p == nil:
		s.discard(all)
	case p.onAnswer != nil:
		delete(s.imports, id)
		s.discard(all)
		var failed error
		if reject {
			failed = thrown(v)
		}
		p.onAnswer(failed)
	case reject:
		s.releaseImport(p)
		p.imported = false
		s.discard(all)
		s.fail(p, thrown(v))
	default:
		s.releaseImport(p)
		p.imported = false
		s.whenComplete(all, func(err error) {
			if err == nil && p.refs == 0 {
				err = ErrReleased
			}
			if err != nil {
				s.releaseAll(all.owned)
				s.fail(p, err)
				return
			}
			p.dyn, p.hasDyn, p.owned = all.v, true, all.owned
			s.settle(p)
		})
	}
	return true, nil
}

// discard lets go of a value that nobody wants, and of the calls that are in it.
func (s *Session) discard(all *evaluated) {
	s.releaseAll(all.owned)
	for _, d := range all.deps {
		s.keep(d.on)
		s.drop(d.on)
	}
}

// released takes back n references of the peer's to an export.
func (s *Session) released(id, n int64) error {
	e := s.exports[id]
	if e == nil {
		return protocolErrorf("", "no such export ID: %d", id)
	}
	if e.refs < n {
		return protocolErrorf("", "refcount would go negative: %d < %d", e.refs, n)
	}
	if e.refs -= n; e.refs > 0 || n == 0 {
		return nil
	}
	delete(s.exports, id)
	if t, ok := e.subject.(*Target); ok && s.byTarget[t] == id {
		delete(s.byTarget, t)
	}
	s.dropSubject(e.subject)
	return nil
}

// whenComplete runs f under the lock once the calls in a value have given it their
// results, or with what failed.
func (s *Session) whenComplete(all *evaluated, f func(error)) {
	failed := error(nil)
	if all.soft != nil {
		failed = all.soft
	}
	waiting := 1
	one := func() {
		if waiting--; waiting == 0 {
			s.callBytes -= all.charged
			all.charged = 0
			f(failed)
		}
	}
	for _, d := range all.deps {
		waiting++
		s.when(d.on, func() {
			if failed == nil {
				failed = s.deliver(d, all)
			}
			one()
		})
	}
	all.deps = nil
	one()
}

func appendID(head string, id int64) []byte {
	return append(strconv.AppendInt([]byte(head), id, 10), ']')
}

func appendIDs(head string, id, n int64) []byte {
	return append(strconv.AppendInt(append(strconv.AppendInt([]byte(head), id, 10), ','), n, 10), ']')
}
