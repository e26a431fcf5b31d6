package fs

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/pattern"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

func (s *Service) glob(ctx context.Context, p *protocol.GlobParams) (*protocol.GlobResult, error) {
	root, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	match, err := pattern.Compile(p.Pattern)
	if err != nil {
		return nil, protocol.InvalidParams("pattern: %v", err)
	}
	exclude, err := compilePatterns("exclude", p.Exclude)
	if err != nil {
		return nil, err
	}
	limit, err := bounded("maxResults", p.MaxResults, protocol.MaxWalkEntries, protocol.MaxWalkEntries)
	if err != nil {
		return nil, err
	}
	result := &protocol.GlobResult{Entries: []protocol.WalkEntry{}}
	spent := 0
	search := &searcher{
		root: root, depth: match.Depth(), hidden: isTrue(p.IncludeHidden), gitignore: isSet(p.RespectGitignore), exclude: exclude,
		fail: func(string, error) error { return nil }, // what cannot be read has no names that match
		visit: func(rel string, kind uint32) error {
			if !match.Match(rel) {
				return nil
			}
			uri := fileuri.Format(slashpath.Join(root, rel))
			if spent += len(uri) + entryOverhead; len(result.Entries) == limit || spent > protocol.MaxSearchBytes {
				result.Truncated = true
				return errStop
			}
			result.Entries = append(result.Entries, protocol.WalkEntry{Path: uri, Kind: kindName(kind)})
			return nil
		},
	}
	if st, err := stat(root); err != nil {
		return nil, err
	} else if kindOf(&st) != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	err = search.run(ctx, search.base(match))
	if errors.Is(err, errStop) || isGone(err) { // the pattern's own directory need not exist
		err = nil
	}
	return result, err
}

// base is where a search for what match matches can begin: below the pattern's own
// directory, unless something on the way there may be left out or is a link.
func (s *searcher) base(match *pattern.Pattern) string {
	base := match.Base()
	if base == "" || s.gitignore || len(s.exclude) > 0 {
		return ""
	}
	at := s.root
	for name := range strings.SplitSeq(base, "/") {
		at = slashpath.Join(at, name)
		st, err := lstat(at)
		if err != nil || kindOf(&st) != unix.S_IFDIR || !s.hidden && strings.HasPrefix(name, ".") {
			return ""
		}
	}
	return base
}

func kindName(kind uint32) string {
	switch kind {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// bounded reads an optional number that is at least 1. What is above most counts as
// most.
func bounded(member string, n *uint64, byDefault, most int) (int, error) {
	switch {
	case n == nil:
		return byDefault, nil
	case *n == 0:
		return 0, refused("%s must be greater than zero", member)
	}
	return int(min(*n, uint64(most))), nil
}
