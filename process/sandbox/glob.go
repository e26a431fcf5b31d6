package sandbox

import (
	"errors"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wsd-dev/wsd/protocol"
)

// Limits of looking for what glob patterns deny. A policy that exceeds one is refused:
// something would stay readable.
const (
	// MaxGlobDepth is how deep a tree may be in which a pattern is looked for.
	MaxGlobDepth = 128
	// MaxGlobVisits is how many directory entries all patterns of a policy may look at.
	MaxGlobVisits = 400_000
	// MaxGlobMatches is how many places all patterns of a policy may deny.
	MaxGlobMatches = 4096
)

// absolutePattern puts pattern below base, which is taken literally. A pattern for
// everything below a directory becomes that directory: it is denied as a whole.
func absolutePattern(base, pattern string) (string, error) {
	if strings.ContainsRune(pattern, 0) {
		return "", protocol.Errorf(protocol.CodeInvalidParams, "a glob pattern must not contain NUL")
	}
	for _, part := range strings.Split(pattern, "/") {
		if part == ".." {
			return "", protocol.Errorf(protocol.CodeInvalidParams, "a glob pattern must not contain `..`")
		}
	}
	full := path.Clean("/" + escapeGlob(base) + "/" + pattern)
	for strings.HasSuffix(full, "/**") && full != "/**" {
		full = strings.TrimSuffix(full, "/**")
	}
	if full == "/" || full == "/**" {
		return "", protocol.Errorf(protocol.CodeInvalidParams, "a glob pattern must not deny the whole disk")
	}
	if !doublestar.ValidatePattern(full) {
		return "", protocol.Errorf(protocol.CodeInvalidParams, "invalid glob pattern `%s`", pattern)
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

// expandGlobs returns what the patterns match now. A directory that matches stands
// for all below it. What cannot be listed by this process is passed over, since the
// confined one has no more rights.
func expandGlobs(patterns []string, depth int) ([]string, error) {
	s := globScan{depth: MaxGlobDepth}
	if depth > 0 {
		s.depth = depth
		s.asked = true
	}
	for _, pattern := range patterns {
		if err := s.expand(pattern); err != nil {
			return nil, err
		}
	}
	return s.matches, nil
}

type globScan struct {
	depth   int
	asked   bool // the depth is the policy's wish
	visits  int
	matches []string
}

func (s *globScan) expand(pattern string) error {
	base, rest := doublestar.SplitPattern(pattern)
	root := unescapeGlob(base)
	if !hasMeta(rest) { // a plain path
		at := join(root, unescapeGlob(rest))
		if _, err := os.Lstat(at); err == nil {
			return s.found(at)
		}
		return nil
	}
	return filepath.WalkDir(root, func(at string, d iofs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, iofs.ErrPermission) {
				return nil
			}
			return unavailablef("look for glob pattern %s: %v", pattern, err)
		}
		if s.visits++; s.visits > MaxGlobVisits {
			return unavailablef("glob patterns have more than %d entries to look at", MaxGlobVisits)
		}
		matched, err := doublestar.Match(pattern, at)
		switch {
		case err != nil:
			return protocol.Errorf(protocol.CodeInvalidParams, "invalid glob pattern `%s`", pattern)
		case matched && at != root:
			if err := s.found(at); err != nil {
				return err
			}
			if d.IsDir() {
				return iofs.SkipDir
			}
			return nil
		case !d.IsDir():
			return nil
		}
		return s.enter(pattern, root, at)
	})
}

// enter says whether the walk goes into the directory at.
func (s *globScan) enter(pattern, root, at string) error {
	if at == "/proc" || at == "/sys" || at == "/dev" {
		return iofs.SkipDir
	}
	level := 0
	if at != root {
		level = strings.Count(strings.TrimPrefix(at, root), "/")
		if root == "/" {
			level = strings.Count(at, "/")
		}
	}
	switch {
	case level < s.depth:
		return nil
	case s.asked:
		return iofs.SkipDir
	}
	return unavailablef("the tree of glob pattern %s is deeper than %d", pattern, MaxGlobDepth)
}

func (s *globScan) found(at string) error {
	if len(s.matches) >= MaxGlobMatches {
		return unavailablef("glob patterns match more than %d places", MaxGlobMatches)
	}
	s.matches = append(s.matches, at)
	return nil
}

func hasMeta(s string) bool { return strings.ContainsAny(s, `*?[{`) }
