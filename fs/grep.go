package fs

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/pattern"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// grepWorkers is how many files one request searches at a time. As many again may
// wait for their turn in the answer.
func grepWorkers() int { return max(2, min(runtime.GOMAXPROCS(0), 8)) }

func (s *Service) grep(ctx context.Context, p *protocol.GrepParams) (*protocol.GrepResult, error) {
	root, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	g, err := newGrep(ctx, root, p)
	if err != nil {
		return nil, err
	}
	st, err := stat(root)
	if err != nil {
		return nil, err
	}
	switch kindOf(&st) {
	case unix.S_IFDIR:
		return g.tree(ctx, p)
	case unix.S_IFREG:
		if err := g.add(g.matcher.file(ctx, root, g.room())); err != nil && !errors.Is(err, errStop) {
			return nil, err
		}
		return &g.result, nil
	}
	return nil, notAFile(root)
}

// grep collects the answer of one request.
type grep struct {
	root    string
	matcher *lineMatcher
	include pattern.Set
	exclude pattern.Set
	limit   int
	spent   int
	result  protocol.GrepResult
}

func newGrep(ctx context.Context, root string, p *protocol.GrepParams) (*grep, error) {
	g := &grep{root: root, result: protocol.GrepResult{Matches: []protocol.GrepMatch{}, Errors: []protocol.WalkError{}}}
	var err error
	if g.include, err = compilePatterns("include", p.Include); err != nil {
		return nil, err
	}
	if g.exclude, err = compilePatterns("exclude", p.Exclude); err != nil {
		return nil, err
	}
	if g.limit, err = bounded("maxMatches", p.MaxMatches, protocol.MaxGrepMatches, protocol.MaxWalkEntries); err != nil {
		return nil, err
	}
	size := int64(protocol.MaxGrepFileBytes)
	if p.MaxFileBytes != nil {
		size = int64(min(*p.MaxFileBytes, 1<<62))
	}
	if len(p.Pattern) > protocol.MaxPatternBytes {
		return nil, refused("pattern exceeds %d bytes", protocol.MaxPatternBytes)
	}
	text := p.Pattern
	if isSet(p.FixedString) {
		text = regexp.QuoteMeta(text)
	}
	if g.matcher, err = newLineMatcher(ctx, text, isSet(p.IgnoreCase), size); err != nil {
		if _, told := errors.AsType[*protocol.Error](err); told || ctx.Err() != nil {
			return nil, err
		}
		return nil, protocol.InvalidParams("pattern: %v", err)
	}
	return g, nil
}

// room is how much of the next file's findings the answer can take.
func (g *grep) room() room {
	return room{matches: g.limit - len(g.result.Matches), bytes: protocol.MaxSearchBytes - g.spent}
}

// add puts the findings of a file into the answer; errStop when it is full.
func (g *grep) add(f *findings) error {
	switch {
	case f.err != nil && isGone(f.err):
		return nil
	case f.err != nil:
		return g.fail(f.path, f.err)
	case f.skipped:
		g.result.FilesSkipped++
		return nil
	}
	g.result.FilesSearched++
	uri := fileuri.Format(f.path)
	for _, m := range f.matches {
		g.spent += len(uri) + len(m.Text) + entryOverhead
		if len(g.result.Matches) == g.limit || g.spent > protocol.MaxSearchBytes {
			g.result.Truncated = true
			return errStop
		}
		m.Path = uri
		g.result.Matches = append(g.result.Matches, m)
	}
	if f.more {
		g.result.Truncated = true
		return errStop
	}
	return nil
}

func (g *grep) fail(path string, err error) error {
	uri, text := fileuri.Format(path), errorText(err)
	if g.spent += len(uri) + len(text) + entryOverhead; g.spent > protocol.MaxSearchBytes {
		g.result.Truncated = true
		return errStop
	}
	g.result.Errors = append(g.result.Errors, protocol.WalkError{Path: uri, Message: text})
	return nil
}

// job is a file to be searched, or a directory that could not be read.
type job struct {
	path  string
	room  room
	found chan *findings
}

// tree searches the files below the root: one goroutine walks, some search, and this
// one takes the findings in the order of the walk.
func (g *grep) tree(ctx context.Context, p *protocol.GrepParams) (*protocol.GrepResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ordered := make(chan job, grepWorkers())
	work := make(chan job)
	var walkErr error
	wg.Go(func() {
		defer close(ordered)
		defer close(work)
		walkErr = g.walk(ctx, p, ordered, work)
	})
	for range grepWorkers() {
		wg.Go(func() {
			for j := range work {
				j.found <- g.matcher.file(ctx, j.path, j.room)
			}
		})
	}
	for j := range ordered {
		if err := g.add(<-j.found); err != nil { // every job is done, as its channel has room
			return &g.result, nil
		}
	}
	if walkErr != nil {
		return nil, walkErr
	}
	return &g.result, nil
}

// walk lists the files to be searched to both channels.
func (g *grep) walk(ctx context.Context, p *protocol.GrepParams, ordered, work chan<- job) error {
	all := room{matches: g.limit, bytes: protocol.MaxSearchBytes}
	search := &searcher{
		root: g.root, depth: -1, hidden: isSet(p.IncludeHidden), gitignore: isTrue(p.RespectGitignore), exclude: g.exclude,
		fail: func(path string, err error) error {
			j := job{found: make(chan *findings, 1)}
			j.found <- &findings{path: path, err: err}
			return send(ctx, ordered, j)
		},
		visit: func(rel string, kind uint32) error {
			if kind != unix.S_IFREG || len(g.include) > 0 && !g.include.Match(rel) {
				return nil
			}
			j := job{path: slashpath.Join(g.root, rel), room: all, found: make(chan *findings, 1)}
			if err := send(ctx, ordered, j); err != nil {
				return err
			}
			if err := send(ctx, work, j); err != nil {
				j.found <- &findings{err: err}
				return err
			}
			return nil
		},
	}
	err := search.run(ctx, "")
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func send(ctx context.Context, to chan<- job, j job) error {
	select {
	case to <- j:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
