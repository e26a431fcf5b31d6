package wire

// A List is a JSON array whose elements are put in, or taken, one after the other and
// still encoded: nobody need hold all of them decoded. The zero List is empty.
type List []byte

// WireSize is the length of the array.
func (l List) WireSize() int { return len(l) }

// AppendWire writes the array as it is.
func (l List) AppendWire(dst []byte) ([]byte, error) {
	if len(l) == 0 {
		return append(dst, "[]"...), nil
	}
	return append(dst, l...), nil
}

// UnmarshalWire keeps a copy of raw, which must be an array.
func (l *List) UnmarshalWire(raw []byte) error {
	if raw[0] != '[' {
		return mismatch(raw, "a sequence")
	}
	*l = append(List(nil), raw...)
	return nil
}

// A BorrowedList is a List that points into the message that it came in, whose memory may
// be used again: whoever decodes one must clone what it keeps.
type BorrowedList List

// AppendWire writes the array as it is.
func (l BorrowedList) AppendWire(dst []byte) ([]byte, error) { return List(l).AppendWire(dst) }

// UnmarshalWire keeps raw itself, which must be an array.
func (l *BorrowedList) UnmarshalWire(raw []byte) error {
	if raw[0] != '[' {
		return mismatch(raw, "a sequence")
	}
	*l = raw
	return nil
}

// Join returns the elements of both. It may change l, which is not used any more then.
func (l List) Join(more List) List {
	first := more.Elements()
	switch own := l.Elements(); {
	case len(first.rest) == 0 || first.rest[0] == ']':
		return l
	case len(own.rest) == 0 || own.rest[0] == ']':
		return append(l[:0], more...)
	}
	return append(append(l[:len(l)-1], ','), first.rest...)
}

// Elements returns an iterator over the elements.
func (l List) Elements() Elements {
	if len(l) == 0 {
		return Elements{}
	}
	return Elements{l[skipSpace(l, 1):]}
}

// Elements are those of a List that have not been taken yet.
type Elements struct{ rest []byte }

// Next takes an element, which points into the List. It is false when there is none.
func (e *Elements) Next() (element []byte, ok bool) {
	if len(e.rest) == 0 || e.rest[0] == ']' {
		return nil, false
	}
	end := skip(e.rest, 0)
	element = e.rest[:end]
	e.rest = e.rest[next(e.rest, end):]
	return element, true
}
