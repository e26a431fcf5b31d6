package pattern

import (
	"fmt"
	"slices"
)

// expand multiplies out the braces of text. What it returns has none that are not
// escaped or in a character class.
func expand(text string) ([]string, error) {
	e := expander{text: text}
	out, err := e.sequence(false)
	if err != nil {
		return nil, err
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

type expander struct {
	text string
	pos  int
	deep int
}

// maxNesting bounds braces in braces.
const maxNesting = 32

// sequence reads up to the end of the text, or within braces to the comma or brace
// that ends it.
func (e *expander) sequence(within bool) ([]string, error) {
	out := []string{""}
	for e.pos < len(e.text) {
		c := e.text[e.pos]
		if within && (c == ',' || c == '}') {
			return out, nil
		}
		var parts []string
		var err error
		switch c {
		case '{':
			parts, err = e.braces()
		case '}':
			return nil, fmt.Errorf("%w: a brace closes that did not open", ErrSyntax)
		default:
			var part string
			part, err = e.plain()
			parts = []string{part}
		}
		if err != nil {
			return nil, err
		}
		if out, err = product(out, parts); err != nil {
			return nil, err
		}
	}
	if within {
		return nil, fmt.Errorf("%w: a brace does not close", ErrSyntax)
	}
	return out, nil
}

// braces reads {a,b,c}.
func (e *expander) braces() ([]string, error) {
	if e.deep++; e.deep > maxNesting {
		return nil, fmt.Errorf("%w: too many braces in braces", ErrSyntax)
	}
	defer func() { e.deep-- }()
	var out []string
	for {
		e.pos++ // the brace or comma
		parts, err := e.sequence(true)
		if err != nil {
			return nil, err
		}
		out = append(out, parts...)
		if len(out) > MaxAlternatives {
			return nil, errTooMany
		}
		if e.text[e.pos] == '}' {
			e.pos++
			return out, nil
		}
	}
}

// plain reads one character, escape or character class, or a run of ordinary ones.
func (e *expander) plain() (string, error) {
	start := e.pos
	switch e.text[e.pos] {
	case '\\':
		if e.pos+1 == len(e.text) {
			return "", fmt.Errorf("%w: it ends in a backslash", ErrSyntax)
		}
		e.pos += 2
		return e.text[start:e.pos], nil
	case '[':
		for e.pos++; e.pos < len(e.text); e.pos++ {
			switch e.text[e.pos] {
			case '\\':
				e.pos++
			case '/':
				return "", fmt.Errorf("%w: a slash in a character class", ErrSyntax)
			case ']':
				e.pos++
				return e.text[start:e.pos], nil
			}
		}
		return "", fmt.Errorf("%w: a character class does not close", ErrSyntax)
	case ',': // outside braces
		e.pos++
		return e.text[start:e.pos], nil
	}
	for e.pos < len(e.text) {
		switch e.text[e.pos] {
		case '\\', '[', '{', '}', ',':
			return e.text[start:e.pos], nil
		}
		e.pos++
	}
	return e.text[start:], nil
}

var errTooMany = fmt.Errorf("%w: its braces stand for more than %d alternatives", ErrSyntax, MaxAlternatives)

func product(heads, tails []string) ([]string, error) {
	if len(heads)*len(tails) > MaxAlternatives {
		return nil, errTooMany
	}
	out := make([]string, 0, len(heads)*len(tails))
	total := 0
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
			if total += len(h) + len(t); total > maxTotal {
				return nil, errTooMany
			}
		}
	}
	return out, nil
}
