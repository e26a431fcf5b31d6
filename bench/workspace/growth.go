package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// baseline has a new peer read a tree of 100,000 entries from the beginning.
func baseline(ctx context.Context, l *lab, r *report) error {
	const files = 100_000
	dir := filepath.Join(l.dir, "baseline")
	if err := makeFiles(dir, files); err != nil {
		return err
	}
	return l.with(ctx, dir, nil, func(s *served) error {
		begin := time.Now()
		if _, err := s.peer.Watermarks(ctx, true); err != nil {
			return err
		}
		first := time.Since(begin)
		begin = time.Now()
		n, err := s.list(ctx, tree.Cursor{})
		if err != nil {
			return err
		}
		if n < files {
			return fmt.Errorf("listed %d of %d", n, files)
		}
		took := time.Since(begin)
		rss, err := s.rss()
		r.plain("100,000 files taken in", first.Seconds(), "s", "the rest of the first settle, after the start")
		r.plain("100,000 entries listed", took.Seconds(), "s", "")
		r.atMost("rss with 100,000 files", rss, "MiB", "all of the process", 128)
		return err
	})
}

// curve shows what one change costs as the tree grows.
func curve(ctx context.Context, l *lab, r *report) error {
	for _, n := range []int{1_000, 10_000, 100_000} {
		dir := filepath.Join(l.dir, fmt.Sprint("curve-", n))
		if err := makeFiles(dir, n); err != nil {
			return err
		}
		err := l.with(ctx, dir, nil, func(s *served) error {
			p := point{Entries: n}
			push, err := s.pushOne(ctx, 21)
			if err != nil {
				return err
			}
			fetch, err := s.fetchOne(ctx, filepath.Join(dir, "d0003", "f45.txt"), 21)
			if err != nil {
				return err
			}
			settle, err := s.settleTime(ctx, 21)
			if err != nil {
				return err
			}
			p.Push, p.Fetch, p.Settle = stats.Milliseconds(push), stats.Milliseconds(fetch), stats.Milliseconds(settle)
			p.RSS, err = s.rss()
			r.Curve = append(r.Curve, p)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pushOne pushes one changed file n times, content first: p50.
func (s *served) pushOne(ctx context.Context, n int) (time.Duration, error) {
	if _, err := s.peer.Watermarks(ctx, true); err != nil {
		return 0, err
	}
	rev := int64(0)
	times, err := stats.Repeat(n, func() error {
		rev++
		data := fmt.Appendf(nil, "pushed %d at %v\n", rev, time.Now())
		o := tree.Data{Hash: tree.Sum(data), Bytes: data}
		if err := s.peer.PushObjects(ctx, changes.FromSlice([]tree.Data{o})); err != nil {
			return err
		}
		_, err := s.peer.Push(ctx, changes.PushInput{SenderRev: rev}, changes.FromSlice([]tree.Entry{{
			Kind: tree.KindFile, Rev: rev, Path: mountPoint + "/d0001/f01.txt", Mode: 0o644, MTime: time.Now().Truncate(time.Millisecond),
			Size: int64(len(data)), Parts: []tree.Part{{Hash: o.Hash, Size: int64(len(data))}},
		}}))
		return err
	})
	return stats.Median(times), err
}
