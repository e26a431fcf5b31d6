package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// fetchOne changes a file on disk n times; the figure is how long it takes from there
// until its entry has been fetched, p50.
func (s *served) fetchOne(ctx context.Context, path string, n int) (time.Duration, error) {
	times := make([]time.Duration, n)
	w, err := s.peer.Watermarks(ctx, true)
	if err != nil {
		return 0, err
	}
	after := tree.At(w.CurrentRev)
	for i := range times {
		if err := os.WriteFile(path, fmt.Appendf(nil, "changed %d at %v\n", i, time.Now()), 0o644); err != nil {
			return 0, err
		}
		begin := time.Now()
		f, err := s.peer.FetchChanges(ctx, changes.FetchQuery{After: after, Ignore: []string{}})
		if err != nil {
			return 0, err
		}
		got, err := changes.Collect(ctx, f.Entries)
		if err != nil {
			return 0, err
		}
		times[i] = time.Since(begin)
		if len(got) != 1 || filepath.Base(got[0].Path) != filepath.Base(path) {
			return 0, fmt.Errorf("changed one file and fetched %d entries", len(got))
		}
		after = f.Current
	}
	return stats.Median(times), nil
}

// settleTime is how long a settle takes that finds nothing, p50.
func (s *served) settleTime(ctx context.Context, n int) (time.Duration, error) {
	times, err := stats.Repeat(n, func() error {
		_, err := s.peer.Watermarks(ctx, true)
		return err
	})
	return stats.Median(times), err
}

// oneChange changes one file among 50,000, and looks for changes where there are none.
func oneChange(ctx context.Context, l *lab, r *report) error {
	const files = 50_000
	dir := filepath.Join(l.dir, "many")
	if err := makeFiles(dir, files); err != nil {
		return err
	}
	err := l.with(ctx, dir, nil, func(s *served) error {
		d, err := s.fetchOne(ctx, filepath.Join(dir, "d0123", "f45.txt"), 21)
		if err != nil {
			return err
		}
		r.atMost("one change of 50,000", stats.Milliseconds(d), "ms", "seen and fetched, warm watcher", 50)
		return nil
	})
	if err != nil {
		return err
	}
	git, err := gitStatus(ctx, dir)
	if err != nil {
		return err
	}
	return l.with(ctx, dir, []string{"--workspace-watch=false"}, func(s *served) error {
		d, err := s.settleTime(ctx, 7)
		if err != nil {
			return err
		}
		r.atMost("settle of 50,000, no watcher", stats.Milliseconds(d), "ms", fmt.Sprintf("git status %.0f", stats.Milliseconds(git)), stats.Milliseconds(git))
		return nil
	})
}

// gitStatus is how long `git status` takes in a repository of dir's files, p50. The
// repository is beside dir.
func gitStatus(ctx context.Context, dir string) (time.Duration, error) {
	git := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0", "--git-dir", dir + ".git", "--work-tree", dir}, args...)...)
		cmd.Stderr = os.Stderr
		_, err := cmd.Output()
		return err
	}
	for _, step := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "all"}, {"status", "--porcelain"}} {
		if err := git(step...); err != nil {
			return 0, fmt.Errorf("git %s: %w", step[0], err)
		}
	}
	times, err := stats.Repeat(7, func() error { return git("status", "--porcelain") })
	return stats.Median(times), err
}

// edit changes one byte in the middle of a large file.
func edit(ctx context.Context, l *lab, r *report) error {
	const size = 256 << 20
	return l.with(ctx, "", nil, func(s *served) error {
		path := filepath.Join(s.dir, "large")
		data := make([]byte, size)
		rand.Read(data)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
		w, err := s.peer.Watermarks(ctx, true)
		if err != nil {
			return err
		}
		old, err := s.peer.ReadEntry(ctx, mountPoint+"/large")
		if err != nil || old == nil {
			return fmt.Errorf("the large file is not there: %w", err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{data[size/2] ^ 1}, size/2); err != nil {
			return err
		}
		begin := time.Now()
		fetch, err := s.peer.FetchChanges(ctx, changes.FetchQuery{After: tree.At(w.CurrentRev), Ignore: []string{}})
		if err != nil {
			return err
		}
		got, err := changes.Collect(ctx, fetch.Entries)
		if err != nil {
			return err
		}
		if len(got) != 1 || len(got[0].Parts) != len(old.Parts) {
			return fmt.Errorf("%d entries for one change", len(got))
		}
		var moved []tree.Hash
		for i, p := range got[0].Parts {
			if p != old.Parts[i] {
				moved = append(moved, p.Hash)
			}
		}
		stream, err := s.peer.FetchObjects(ctx, moved)
		if err != nil {
			return err
		}
		if _, err := changes.Collect(ctx, stream); err != nil {
			return err
		}
		r.atMost("chunks moved for one byte of 256 MiB", float64(len(moved)), "", fmt.Sprintf("seen and fetched in %.0f ms", stats.Milliseconds(time.Since(begin))), 1)
		return nil
	})
}
