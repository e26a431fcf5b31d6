package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// sourceTree pushes a source tree to an empty workspace and pulls it into an empty
// directory, as `wsd sync` does, and has rsync copy the same tree twice.
func sourceTree(ctx context.Context, l *lab, r *report) error {
	if l.source == "" {
		root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("go env GOROOT: %w", err)
		}
		l.source = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	// A copy, which is in the page cache: what is compared writes, and reads no disk.
	from := filepath.Join(l.dir, "from")
	if err := os.CopyFS(from, os.DirFS(l.source)); err != nil {
		return err
	}
	n, size, err := measureTree(from)
	if err != nil {
		return err
	}
	beside, err := rsync(ctx, from, filepath.Join(l.dir, "rsynced"))
	if err != nil {
		return err
	}
	against := fmt.Sprintf("rsync -a %.2f s, local to local", beside.Seconds())
	return l.with(ctx, "", nil, func(s *served) error {
		push, err := l.sync(ctx, s, from)
		if err != nil {
			return err
		}
		again, err := l.sync(ctx, s, from)
		if err != nil {
			return err
		}
		to := filepath.Join(l.dir, "to")
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		pull, err := l.sync(ctx, s, to)
		if err != nil {
			return err
		}
		for _, dir := range []string{s.dir, to} {
			if m, bytes, err := measureTree(dir); err != nil || m != n || bytes != size {
				return fmt.Errorf("%d entries and %d bytes became %d and %d: %w", n, size, m, bytes, err)
			}
		}
		what := fmt.Sprintf("%d entries, %.0f MB; %s", n, float64(size)/1e6, against)
		r.plain("source tree pushed cold", push.Seconds(), "s", what)
		r.plain("source tree pulled cold", pull.Seconds(), "s", against)
		r.plain("source tree, nothing to do", again.Seconds(), "s", "the whole of wsd sync")
		store, err := os.Stat(s.store)
		if err != nil {
			return err
		}
		r.plain("store", float64(store.Size())/float64(size), "times", "the content's size")
		rss, err := s.rss()
		r.plain("rss after it", rss, "MiB", "")
		return err
	})
}

// sync is how long one `wsd sync` takes.
func (l *lab) sync(ctx context.Context, s *served, dir string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, l.wsd, "sync", dir, s.URL)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(l.dir, "state"))
	cmd.Stderr = os.Stderr
	begin := time.Now()
	if _, err := cmd.Output(); err != nil {
		return 0, fmt.Errorf("wsd sync: %w", err)
	}
	return time.Since(begin), nil
}

// rsync is how long rsync takes to copy a tree to where nothing is.
func rsync(ctx context.Context, from, to string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "rsync", "-a", from+"/", to+"/")
	cmd.Stderr = os.Stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return 0, errors.New("rsync is not on the PATH: install it, it is what is compared with")
		}
		return 0, fmt.Errorf("rsync: %w", err)
	}
	return time.Since(begin), nil
}

// measureTree counts what is below a directory, and the bytes of its files.
func measureTree(dir string) (entries int, size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		entries++
		if d.Type().IsRegular() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			size += info.Size()
		}
		return nil
	})
	return entries, size, err
}
