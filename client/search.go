package client

import (
	"context"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/protocol"
)

// Found is a path that Walk or Glob found.
type Found struct {
	Path string
	// Kind is "file" or "directory", of Glob also "symlink" or "other".
	Kind string
}

// Listing is what Walk and Glob return.
type Listing struct {
	Found []Found
	// Errors are the directories that could not be read. Each is an *fs.PathError.
	Errors []error
	// Truncated is true when a limit left something out.
	Truncated bool
}

// WalkOptions bound a walk; nil and the zero value mean as much as the server allows.
type WalkOptions struct {
	// MaxDepth is how many levels are listed; 1 is what is in the directory itself.
	MaxDepth int
	// MaxEntries and MaxDirectories bound what is looked at.
	MaxEntries, MaxDirectories int
	// FollowLinks enters links to directories, each real directory once.
	FollowLinks bool
	// SkipHidden does not enter directories whose names begin with a dot.
	SkipHidden bool
}

// Walk lists files and directories below a directory, breadth first. Links that are
// not followed are left out.
func (c *Client) Walk(ctx context.Context, root string, opts *WalkOptions) (*Listing, error) {
	uri, err := c.uri(ctx, root)
	if err != nil {
		return nil, err
	}
	var o WalkOptions
	if opts != nil {
		o = *opts
	}
	depth := protocol.MaxWalkDepth
	if o.MaxDepth > 0 {
		depth = min(o.MaxDepth-1, depth)
	}
	params := &protocol.WalkParams{Path: uri, Options: protocol.WalkOptions{
		MaxDepth:                uint64(depth),
		MaxDirectories:          orMost(o.MaxDirectories, protocol.MaxWalkDirectories),
		MaxEntries:              orMost(o.MaxEntries, protocol.MaxWalkEntries),
		FollowDirectorySymlinks: o.FollowLinks,
		PruneHiddenDirectories:  o.SkipHidden,
	}}
	var result protocol.WalkResult
	if err := c.call(ctx, protocol.MethodFsWalk, params, &result); err != nil {
		return nil, pathError("walk", root, err)
	}
	return listing(result.Entries, result.Errors, result.Truncated)
}

// orMost is n, bounded by most, which 0 means too.
func orMost(n, most int) uint64 {
	if n <= 0 || n > most {
		n = most
	}
	return uint64(n)
}

func listing(entries []protocol.WalkEntry, failures []protocol.WalkError, truncated bool) (*Listing, error) {
	out := &Listing{Found: make([]Found, 0, len(entries)), Truncated: truncated}
	for _, entry := range entries {
		name, err := pathOf(entry.Path)
		if err != nil {
			return nil, err
		}
		out.Found = append(out.Found, Found{Path: name, Kind: entry.Kind})
	}
	out.Errors = walkErrors(failures)
	return out, nil
}

func walkErrors(failures []protocol.WalkError) []error {
	var out []error
	for _, failure := range failures {
		name, err := pathOf(failure.Path)
		if err != nil {
			name = failure.Path
		}
		out = append(out, &iofs.PathError{Op: "read", Path: name, Err: &Error{Code: protocol.CodeInternal, Message: failure.Message}})
	}
	return out
}

// GlobOptions are what Glob may be told; nil and the zero value work.
type GlobOptions struct {
	// Exclude are patterns for what is left out and not entered.
	Exclude []string
	// SkipHidden leaves out names that begin with a dot.
	SkipHidden bool
	// Gitignore leaves out what .gitignore files name.
	Gitignore bool
	// MaxResults bounds the answer; 0 means as much as the server allows.
	MaxResults int
}

// Glob finds paths below root by a pattern relative to it: *, ?, [a-z], {a,b}, and **
// for any number of directories. The result is sorted. It needs the capability fsGlob.
func (c *Client) Glob(ctx context.Context, root, pattern string, opts *GlobOptions) (*Listing, error) {
	if err := c.need(ctx, protocol.CapFsGlob); err != nil {
		return nil, err
	}
	uri, err := c.uri(ctx, root)
	if err != nil {
		return nil, err
	}
	params := &protocol.GlobParams{Path: uri, Pattern: pattern}
	if opts != nil {
		hidden := !opts.SkipHidden
		params.Exclude, params.IncludeHidden, params.RespectGitignore = opts.Exclude, &hidden, &opts.Gitignore
		params.MaxResults = positive(opts.MaxResults)
	}
	var result protocol.GlobResult
	if err := c.call(ctx, protocol.MethodFsGlob, params, &result); err != nil {
		return nil, pathError("glob", root, err)
	}
	return listing(result.Entries, nil, result.Truncated)
}

func positive(n int) *uint64 {
	if n <= 0 {
		return nil
	}
	out := uint64(n)
	return &out
}

// GrepOptions are what Grep may be told; nil and the zero value work.
type GrepOptions struct {
	// Fixed takes the pattern as plain text.
	Fixed      bool
	IgnoreCase bool
	// Include and Exclude are glob patterns for the files.
	Include, Exclude []string
	// Hidden searches files and directories whose names begin with a dot too.
	Hidden bool
	// NoIgnore searches what .gitignore files name too.
	NoIgnore bool
	// MaxMatches bounds the answer; 0 means the server's default, 1,000.
	MaxMatches int
	// MaxFileBytes skips larger files; 0 means the server's default, 64 MiB.
	MaxFileBytes int
}

// Match is a line that Grep found.
type Match struct {
	Path string
	// Line counts from 1, Column from 1 in bytes, of the first match in the line.
	Line, Column int
	// Text is the line without its end, cut after 4,096 bytes.
	Text string
}

// Matches is what Grep returns.
type Matches struct {
	Matches []Match // sorted by path, then by line
	// Errors are the files and directories that could not be read.
	Errors []error
	// Truncated is true when MaxMatches left something out.
	Truncated bool
	// Searched and Skipped count files; skipped are binary and too large ones.
	Searched, Skipped int
}

// Grep searches the file root, or the files below the directory root, for lines that
// match an RE2 pattern. It needs the capability fsGrep.
func (c *Client) Grep(ctx context.Context, root, pattern string, opts *GrepOptions) (*Matches, error) {
	if err := c.need(ctx, protocol.CapFsGrep); err != nil {
		return nil, err
	}
	uri, err := c.uri(ctx, root)
	if err != nil {
		return nil, err
	}
	params := &protocol.GrepParams{Path: uri, Pattern: pattern}
	if opts != nil {
		ignore := !opts.NoIgnore
		params.FixedString, params.IgnoreCase, params.IncludeHidden, params.RespectGitignore = &opts.Fixed, &opts.IgnoreCase, &opts.Hidden, &ignore
		params.Include, params.Exclude = opts.Include, opts.Exclude
		params.MaxMatches, params.MaxFileBytes = positive(opts.MaxMatches), positive(opts.MaxFileBytes)
	}
	var result protocol.GrepResult
	if err := c.call(ctx, protocol.MethodFsGrep, params, &result); err != nil {
		return nil, pathError("grep", root, err)
	}
	out := &Matches{
		Matches: make([]Match, 0, len(result.Matches)), Errors: walkErrors(result.Errors), Truncated: result.Truncated,
		Searched: int(result.FilesSearched), Skipped: int(result.FilesSkipped),
	}
	for _, m := range result.Matches {
		name, err := pathOf(m.Path)
		if err != nil {
			return nil, err
		}
		out.Matches = append(out.Matches, Match{Path: name, Line: int(m.Line), Column: int(m.Column), Text: m.Text})
	}
	return out, nil
}
