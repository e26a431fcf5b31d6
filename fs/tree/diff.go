package tree

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
)

// diffBytes is the largest side of a diff.
const diffBytes = 64 << 20

// Diff returns the unified diff of two files, "" when they are equal: three lines of
// context, applicable by patch to the byte. Files with NUL in their first 8,000 bytes
// are binary, and only said to differ.
func (t *Tree) Diff(ctx context.Context, a, b string) (string, error) {
	old, err := t.ReadFile(ctx, a, diffBytes)
	if err != nil {
		return "", err
	}
	now, err := t.ReadFile(ctx, b, diffBytes)
	if err != nil {
		return "", err
	}
	return t.diff(a, b, old, now)
}

// DiffContent is the Diff from a file to content that it does not have.
func (t *Tree) DiffContent(ctx context.Context, path string, content []byte) (string, error) {
	old, err := t.ReadFile(ctx, path, diffBytes)
	if err != nil {
		return "", err
	}
	return t.diff(path, path, old, content)
}

func (t *Tree) diff(a, b string, old, now []byte) (string, error) {
	if bytes.Equal(old, now) {
		return "", nil
	}
	// Both have been cleaned once, to be read.
	a, err := Clean(a)
	if err != nil {
		return "", err
	}
	if b, err = Clean(b); err != nil {
		return "", err
	}
	if binary(old) || binary(now) {
		return fmt.Sprintf("Binary files %s and %s differ\n", a, b), nil
	}
	for _, side := range []struct {
		path string
		text []byte
	}{{a, old}, {b, now}} {
		if n := bytes.Count(side.text, []byte("\n")) + 1; n > t.forest.cfg.DiffMaxLines {
			return "", at("diff", side.path, fmt.Errorf("%w: it has %d lines, a diff takes %d", ErrTooLarge, n, t.forest.cfg.DiffMaxLines))
		}
	}
	out := diff.Diff(a, old, b, now)
	_, out, _ = bytes.Cut(out, []byte("\n")) // its first line is a command
	return string(out), nil
}

func binary(text []byte) bool {
	return bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0
}
