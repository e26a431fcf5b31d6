package tree

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/pattern"
)

// MaxGlob is how many results Glob gives; more are ErrTooLarge.
const MaxGlob = 100_000

// Glob returns what a pattern matches, in the order of the paths' bytes. Links match as
// themselves. In a segment, * stands for any characters, ? for one, [a-z] for one of a
// set and [!a-z] or [^a-z] for one of none, {a,b} for alternatives, which may have
// slashes; a backslash takes the meaning from what follows. A segment ** stands for any
// number of directories, at the end for all that is below. Brackets and braces that are
// not closed mean themselves. Dots and case are nothing special.
func (t *Tree) Glob(ctx context.Context, text string) ([]FileInfo, error) {
	p, err := compileGlob(text)
	if err != nil {
		return nil, at("glob", text, err)
	}
	base := "/" + p.Base()
	var out []FileInfo
	err = t.view(ctx, func(tx Tx, ns *Namespace) error {
		s, err := newResolver(tx, ns).existing(base, false)
		if err != nil || s.node.Kind != KindDir {
			return none(err)
		}
		out = nil
		depth := p.Depth()
		return walk(ctx, tx, s.asDir(), func(info *FileInfo) error {
			rel := info.Path[1:]
			if p.Match(rel) {
				if len(out) == MaxGlob {
					return fmt.Errorf("%w: it matches more than %d paths", ErrTooLarge, MaxGlob)
				}
				out = append(out, *info)
			}
			if depth >= 0 && strings.Count(rel, "/")+1 >= depth && info.Kind == KindDir {
				return iofs.SkipDir
			}
			return nil
		})
	})
	slices.SortFunc(out, func(a, b FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return out, at("glob", text, err)
}

// none is the answer where the base of a pattern leads nowhere.
func none(err error) error {
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, ErrNotDirectory) {
		return nil
	}
	return err
}

// compileGlob makes a pattern relative and says in the words of package pattern what is
// meant literally.
func compileGlob(text string) (*pattern.Pattern, error) {
	var segments []string
	for segment := range strings.SplitSeq(literalBrackets(text), "/") {
		switch segment {
		case "", ".":
		case "..":
			return nil, fmt.Errorf("%w: .. in a pattern", ErrInvalid)
		default:
			segments = append(segments, segment)
		}
	}
	if n := len(segments); n > 0 && segments[n-1] == "**" {
		segments = append(segments, "*") // what is below, not the directory itself
	}
	p, err := pattern.Compile(strings.Join(segments, "/"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, nil
}

// literalBrackets puts a backslash before brackets and braces that are not closed, or
// that close nothing, and before a ] that is the first of a set.
func literalBrackets(text string) string {
	var out strings.Builder
	var open []int // where in out the braces are that are open
	mark := map[int]bool{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i+1 == len(text) {
				out.WriteString(`\\`)
				continue
			}
			out.WriteString(text[i : i+2])
			i++
		case '[':
			set, n := classOf(text[i:])
			out.WriteString(set)
			i += n - 1
		case '{':
			open = append(open, out.Len())
			mark[out.Len()] = true
			out.WriteByte(c)
		case '}':
			if len(open) == 0 {
				out.WriteString(`\}`)
				continue
			}
			delete(mark, open[len(open)-1])
			open = open[:len(open)-1]
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	if len(mark) == 0 {
		return out.String()
	}
	var marked strings.Builder
	for i, c := range []byte(out.String()) {
		if mark[i] {
			marked.WriteByte('\\')
		}
		marked.WriteByte(c)
	}
	return marked.String()
}

// classOf is the set that text begins with, with its first ] escaped, and how much of
// text it is; or an escaped bracket where none is closed before the next slash.
func classOf(text string) (string, int) {
	i := 1
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		i++
	}
	first := i
	for ; i < len(text) && text[i] != '/'; i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == ']' && i > first:
			if text[first] == ']' {
				return text[:first] + `\` + text[first:i+1], i + 1
			}
			return text[:i+1], i + 1
		}
	}
	return `\[`, 1
}
