package ignore

import (
	"errors"
	"fmt"
	"strings"
)

// ErrPattern says that a text is no pattern: git ignores it.
var ErrPattern = errors.New("it is no pattern")

// A pattern is a line of a file with rules.
type pattern struct {
	glob string // without the marks before and behind it
	// plain is the length of what glob begins with that has no wildcard, and suffix says that
	// glob is a star and a text without one.
	plain    int
	wild     wild // what comes behind
	suffix   bool
	negate   bool
	dirOnly  bool
	baseName bool // the glob is for the last component
}

// parse reads the lines of a file with rules.
func parse(text string) []pattern {
	var list []pattern
	for line := range lines(text) {
		if p, ok := parsePattern(line); ok {
			list = append(list, p)
		}
	}
	return list
}

// lines yields the lines of a file that are patterns, as git trims them, with their numbers.
func lines(text string) func(func(string, int) bool) {
	return func(yield func(string, int) bool) {
		n := 0
		for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
			n++
			line = trimSpaces(strings.TrimSuffix(line, "\r"))
			if line == "" || line[0] == '#' {
				continue
			}
			if !yield(line, n) {
				return
			}
		}
	}
}

// trimSpaces removes the spaces at the end of a line that no backslash is before.
func trimSpaces(line string) string {
	end := len(line)
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			end = min(end, i)
			continue
		case '\\':
			i++
		}
		end = len(line)
	}
	return line[:end]
}

// Line returns a pattern as a line of a file has it, where # begins a comment and spaces at
// the end do not count.
func Line(text string) string {
	if strings.HasPrefix(text, "#") {
		text = `\` + text
	}
	if body := trimSpaces(text); len(body) < len(text) {
		text = body + strings.Repeat(`\ `, len(text)-len(body))
	}
	return text
}

// Check returns an error that is ErrPattern for a text that git takes for a pattern that
// matches nothing.
func Check(text string) error {
	text = strings.TrimPrefix(text, "!")
	if len(text) > MaxPattern {
		return fmt.Errorf("%w: it has more than %d bytes", ErrPattern, MaxPattern)
	}
	if strings.Trim(text, "/") == "" {
		return fmt.Errorf("%w: it names nothing", ErrPattern)
	}
	if strings.ContainsAny(text, "\n\r\x00") {
		return fmt.Errorf("%w: it has a line break or a zero byte", ErrPattern)
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return fmt.Errorf("%w: a backslash is at its end", ErrPattern)
			}
		case '[':
			end, _ := readSet(text, i+1)
			if end < 0 {
				return fmt.Errorf("%w: a [ has no ], or a class in it no name", ErrPattern)
			}
			i = end
		}
	}
	return nil
}

// CheckText is Check for all lines of a file. It returns the number of the line, too.
func CheckText(text string) (int, error) {
	for line, n := range lines(text) {
		if err := Check(line); err != nil {
			return n, fmt.Errorf("%q: %w", line, err)
		}
	}
	return 0, nil
}

// parsePattern reads a pattern.
func parsePattern(text string) (p pattern, ok bool) {
	if len(text) > MaxPattern {
		return p, false
	}
	text, p.negate = strings.CutPrefix(text, "!")
	p.suffix = text != "" && text[0] == '*' && !strings.ContainsAny(text[1:], special)
	text, p.dirOnly = strings.CutSuffix(text, "/")
	p.baseName = !strings.Contains(text, "/")
	p.glob = strings.TrimPrefix(text, "/")
	if p.plain = strings.IndexAny(p.glob, special); p.plain < 0 {
		p.plain = len(p.glob)
	}
	p.wild = compile(p.glob[p.plain:]) // as git does it, stars behind a name are at the beginning
	return p, p.glob != ""
}

// special are the bytes that stand for others than themselves.
const special = `*?[\`

// match reports whether the pattern matches a path, whose last component is name.
func (p *pattern) match(path, name string, isDir bool) bool {
	if p.dirOnly && !isDir {
		return false
	}
	if p.baseName {
		path = name
	}
	switch {
	case p.plain == len(p.glob):
		return path == p.glob
	case p.baseName && p.suffix:
		return strings.HasSuffix(path, p.glob[1:])
	}
	return strings.HasPrefix(path, p.glob[:p.plain]) && p.wild.match(path[p.plain:])
}
