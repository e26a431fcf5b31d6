package sandbox

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wsd-dev/wsd/fs/pattern"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// Limits of looking for what glob patterns deny. A command can make a tree that exceeds
// them; directories that are not searched whole are then denied whole.
const (
	// MaxGlobDepth is the most that a policy can ask for. No path is longer.
	MaxGlobDepth = 2048
	// MaxGlobVisits is how many directory entries all patterns of a policy look at.
	MaxGlobVisits = 2_000_000
	// maxInnerVisits is how many entries of the directories that patterns match are looked
	// at for files with other names.
	maxInnerVisits = 100_000
	// MaxGlobMatches is how many places all patterns of a policy deny one by one.
	MaxGlobMatches = 8192
	// maxScanPath is the longest path of a directory that is searched: with a name in it
	// the path still fits PATH_MAX.
	maxScanPath = 4095 - 256
)

// absolutePattern puts pattern below base, which is taken literally. A pattern for
// everything below a directory becomes that directory: it is denied as a whole.
func absolutePattern(base, text string) (string, error) {
	if strings.ContainsRune(text, 0) {
		return "", protocol.InvalidParams("a glob pattern must not contain NUL")
	}
	for _, part := range strings.Split(text, "/") {
		if part == ".." {
			return "", protocol.InvalidParams("a glob pattern must not contain `..`")
		}
	}
	full := path.Clean("/" + escapeGlob(base) + "/" + text)
	for strings.HasSuffix(full, "/**") && full != "/**" {
		full = strings.TrimSuffix(full, "/**")
	}
	if _, err := compileGlob(full); err != nil {
		return "", protocol.InvalidParams("invalid glob pattern `%s`: %v", text, err)
	}
	return full, nil
}

func escapeGlob(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]{}\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unescapeGlob(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// A globPattern is an absolute pattern without alternatives.
type globPattern struct {
	base     string    // the directory above the first segment with a wildcard
	segments []segment // below base; none when the pattern is the path base
	seen     []int     // by segment, the listing for which it was last noted
}

// A segment is what a pattern has between two slashes.
type segment struct {
	text string
	kind segmentKind
	// literal is the name of a segmentName, and what a segmentSuffix ends in.
	literal string
}

type segmentKind int

const (
	segmentName   segmentKind = iota
	segmentSuffix             // * and a literal end
	segmentGlob
	segmentAny // **, any number of names
)

func newSegment(text string) segment {
	switch {
	case text == "**":
		return segment{text: text, kind: segmentAny}
	case !hasMeta(text):
		return segment{text: text, kind: segmentName, literal: unescapeGlob(text)}
	case text[0] == '*' && !strings.ContainsAny(text[1:], `*?[{\\`):
		return segment{text: text, kind: segmentSuffix, literal: text[1:]}
	}
	return segment{text: text, kind: segmentGlob}
}

func (s *segment) match(name string) bool {
	switch s.kind {
	case segmentName:
		return s.literal == name
	case segmentSuffix:
		return strings.HasSuffix(name, s.literal)
	case segmentAny:
		return true
	case segmentGlob:
	}
	ok, _ := doublestar.Match(s.text, name) // it compiled, so it has no error
	return ok
}

// errWholeDisk is the error for a pattern that would leave nothing.
var errWholeDisk = errors.New("it must not deny the whole disk")

// compileGlob returns the patterns that an absolute one with braces stands for.
func compileGlob(text string) ([]*globPattern, error) {
	if strings.Trim(text, "/*") == "" {
		return nil, errWholeDisk
	}
	alternatives, err := pattern.Alternatives(strings.TrimPrefix(text, "/"))
	if err != nil {
		return nil, err
	}
	var globs []*globPattern
	for _, alt := range alternatives {
		if strings.HasSuffix(alt, "/") {
			continue // matches no path
		}
		parts := strings.Split(path.Clean(alt), "/")
		for len(parts) > 1 && parts[len(parts)-1] == "**" {
			parts = parts[:len(parts)-1]
		}
		if len(parts) == 1 && (parts[0] == "" || parts[0] == "." || parts[0] == "**") {
			return nil, errWholeDisk
		}
		g := &globPattern{base: "/"}
		for i, part := range parts {
			if len(g.segments) == 0 && !hasMeta(part) && part != "**" {
				g.base = slashpath.Join(g.base, unescapeGlob(parts[i]))
				continue
			}
			g.segments = append(g.segments, newSegment(part))
		}
		g.seen = make([]int, len(g.segments))
		globs = append(globs, g)
	}
	return globs, nil
}

// compileGlobs compiles the patterns of a policy, sorted by base.
func compileGlobs(patterns []string) ([]*globPattern, error) {
	var globs []*globPattern
	for _, text := range patterns {
		more, err := compileGlob(text)
		if err != nil {
			return nil, protocol.InvalidParams("invalid glob pattern `%s`: %v", text, err)
		}
		globs = append(globs, more...)
	}
	slices.SortStableFunc(globs, func(a, b *globPattern) int { return slashpath.Compare(a.base, b.base) })
	return globs, nil
}

func hasMeta(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '*', '?', '[', '{':
			return true
		}
	}
	return false
}
