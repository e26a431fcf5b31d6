package rawname

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The characters that stand for the bytes 0x80 to 0xFF.
const (
	base  = 0x10FE00
	first = base + 0x80
	last  = base + 0xFF
)

// lead begins the UTF-8 of each of those characters, and of few others.
const lead = 0xF4

// ErrForm says that a name is none that Encode makes.
var ErrForm = errors.New("not the form of any name: a byte that is no UTF-8 is written as one of U+10FE80 to U+10FEFF, all else as it is")

func stands(r rune) bool { return r >= first && r <= last }

// Encode returns what a tree calls a name, or a path, of any bytes.
func Encode(raw string) string {
	if strings.IndexByte(raw, lead) < 0 && utf8.ValidString(raw) {
		return raw
	}
	var b strings.Builder
	b.Grow(len(raw) + 3)
	for len(raw) > 0 {
		r, n := utf8.DecodeRuneInString(raw)
		if r == utf8.RuneError && n == 1 || stands(r) {
			for i := range n {
				b.WriteRune(base + rune(raw[i]))
			}
		} else {
			b.WriteString(raw[:n])
		}
		raw = raw[n:]
	}
	return b.String()
}

// Decode returns the bytes of what a tree calls a name, or a path. It returns ErrForm unless
// Encode makes the name of those bytes.
func Decode(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", ErrForm
	}
	if !Has(name) {
		return name, nil
	}
	raw := bytesOf(name)
	if Encode(raw) != name {
		return "", ErrForm
	}
	return raw, nil
}

func bytesOf(name string) string {
	b := make([]byte, 0, len(name))
	for _, r := range name {
		if stands(r) {
			b = append(b, byte(r-base))
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

// Raw returns the bytes of a name, or a path, of a tree. One that Encode never makes is
// returned as it is.
func Raw(name string) string {
	if !Has(name) {
		return name
	}
	if raw, err := Decode(name); err == nil {
		return raw
	}
	return name
}

// Has reports whether a name, or a path, has a character that stands for a byte.
func Has(name string) bool {
	for i := strings.IndexByte(name, lead); i >= 0; {
		if r, _ := utf8.DecodeRuneInString(name[i:]); stands(r) {
			return true
		}
		next := strings.IndexByte(name[i+1:], lead)
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

// Plain returns the bytes of a name, or a path, of a tree if they are UTF-8, and false else.
func Plain(name string) (string, bool) {
	raw, err := Decode(name)
	return raw, err == nil && utf8.ValidString(raw)
}

// Len returns how many bytes a name, or a path, of a tree has outside of it.
func Len(name string) int {
	n := len(name)
	if !Has(name) {
		return n
	}
	for _, r := range name {
		if stands(r) {
			n -= utf8.UTFMax - 1
		}
	}
	return n
}

// Show returns a name, or a path, of a tree as people read it: a byte that is not UTF-8 is
// written as \xe9. Names that Encode never makes, and bytes that are no name of a tree, are
// shown too.
func Show(name string) string {
	if !Has(name) && utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for raw := Raw(name); len(raw) > 0; {
		r, n := utf8.DecodeRuneInString(raw)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, raw[0])
		} else {
			b.WriteString(raw[:n])
		}
		raw = raw[n:]
	}
	return b.String()
}

// Parse returns the bytes that Show has written, of a name that has no such text of its own.
func Parse(shown string) string {
	var b strings.Builder
	for len(shown) > 0 {
		if c, ok := escaped(shown); ok {
			b.WriteByte(c)
			shown = shown[len(`\xe9`):]
			continue
		}
		b.WriteByte(shown[0])
		shown = shown[1:]
	}
	return b.String()
}

// escaped returns the byte that a text begins with, as Show writes it.
func escaped(text string) (byte, bool) {
	if len(text) < len(`\xe9`) || text[:2] != `\x` {
		return 0, false
	}
	var c byte
	for _, d := range []byte(text[2:4]) {
		switch {
		case d >= '0' && d <= '9':
			c = c<<4 | (d - '0')
		case d >= 'a' && d <= 'f':
			c = c<<4 | (d - 'a' + 10)
		default:
			return 0, false
		}
	}
	return c, c >= utf8.RuneSelf
}
