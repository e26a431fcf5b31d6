package pattern

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Limits of what is compiled.
const (
	// MaxBytes bounds a pattern's length.
	MaxBytes = 4096
	// MaxAlternatives bounds what the braces of a pattern multiply out to.
	MaxAlternatives = 1024
	// MaxSetBytes bounds the bytes of all alternatives of a Set together.
	MaxSetBytes = 4 << 20
	// maxTotal bounds the bytes of those alternatives together.
	maxTotal = 1 << 20
)

// ErrSyntax is the error for a pattern that makes no sense.
var ErrSyntax = errors.New("syntax error in pattern")

// Pattern is a compiled pattern.
type Pattern struct {
	globs []glob
}

// glob is a pattern without alternatives.
type glob struct {
	text  string
	depth int // number of components it matches at most, -1 for any
}

// Compile compiles a pattern for relative paths.
func Compile(text string) (*Pattern, error) {
	alternatives, err := Alternatives(text)
	if err != nil {
		return nil, err
	}
	p := &Pattern{}
	for _, alt := range alternatives {
		g := glob{text: alt}
		for segment := range strings.SplitSeq(alt, "/") {
			switch segment {
			case "**":
				g.depth = -1
			default:
				if g.depth >= 0 {
					g.depth++
				}
			}
		}
		p.globs = append(p.globs, g)
	}
	return p, nil
}

// Alternatives returns the valid patterns without braces that a pattern for relative
// paths stands for, sorted and each once.
func Alternatives(text string) ([]string, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("pattern exceeds %d bytes", MaxBytes)
	}
	if text == "" {
		return nil, fmt.Errorf("%w: it is empty", ErrSyntax)
	}
	alternatives, err := expand(text)
	if err != nil {
		return nil, err
	}
	for i, alt := range alternatives {
		alt = strings.TrimPrefix(alt, "./")
		alternatives[i] = alt
		if strings.HasPrefix(alt, "/") {
			return nil, fmt.Errorf("%w: it must be relative", ErrSyntax)
		}
		for segment := range strings.SplitSeq(alt, "/") {
			if segment == ".." {
				return nil, fmt.Errorf("%w: it must not leave its directory", ErrSyntax)
			}
		}
		if _, err := doublestar.Match(alt, "x"); err != nil || !doublestar.ValidatePattern(alt) {
			return nil, ErrSyntax
		}
	}
	return alternatives, nil
}

// Match reports whether the pattern matches all of path.
func (p *Pattern) Match(path string) bool {
	for _, g := range p.globs {
		if ok, _ := doublestar.Match(g.text, path); ok { // it compiled, so it has no error
			return true
		}
	}
	return false
}

// Depth is the number of components of the longest path it can match, -1 when that
// has no limit.
func (p *Pattern) Depth() int {
	depth := 0
	for _, g := range p.globs {
		if g.depth < 0 {
			return -1
		}
		depth = max(depth, g.depth)
	}
	return depth
}

// Base is the directory, relative and without wildcards, below which everything that
// it matches is; "" for the starting directory.
func (p *Pattern) Base() string {
	if len(p.globs) != 1 {
		return ""
	}
	var base []string
	segments := strings.Split(p.globs[0].text, "/")
	for _, segment := range segments[:len(segments)-1] {
		if segment == "" || segment == "." || strings.ContainsAny(segment, `*?[]\`) {
			break
		}
		base = append(base, segment)
	}
	if n := len(base); n > 0 && segments[n] == "**" {
		base = base[:n-1] // a/** matches a as well
	}
	return strings.Join(base, "/")
}

// A Set matches what one of its patterns does. A pattern without a slash matches the
// last component of a path, as in the options of search tools; one with a slash, the
// whole path.
type Set []*Pattern

// CompileSet compiles patterns into a Set.
func CompileSet(texts []string) (Set, error) {
	var set Set
	size := 0
	for _, text := range texts {
		if !strings.Contains(strings.TrimSuffix(text, "/"), "/") {
			text = "**/" + text
		}
		p, err := Compile(strings.TrimSuffix(text, "/"))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		for _, g := range p.globs {
			size += len(g.text)
		}
		if size > MaxSetBytes {
			return nil, fmt.Errorf("the patterns stand for more than %d bytes of alternatives together", MaxSetBytes)
		}
		set = append(set, p)
	}
	return set, nil
}

// Match reports whether one of the patterns matches path.
func (s Set) Match(path string) bool {
	for _, p := range s {
		if p.Match(path) {
			return true
		}
	}
	return false
}
