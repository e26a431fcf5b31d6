package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

const (
	objects = 256 // of 512 KiB
	entries = 10_000
)

// wire measures the calls of synchronisation one by one, as the reference was measured.
func wire(ctx context.Context, l *lab, r *report) error {
	return l.with(ctx, "", nil, func(s *served) error {
		if err := moveObjects(ctx, s, r); err != nil {
			return err
		}
		return moveEntries(ctx, s, r)
	})
}

func moveObjects(ctx context.Context, s *served, r *report) error {
	var chunks []tree.Data
	var hashes []tree.Hash
	for range objects {
		data := make([]byte, tree.ChunkSize)
		rand.Read(data)
		chunks = append(chunks, tree.Data{Hash: tree.Sum(data), Bytes: data})
		hashes = append(hashes, chunks[len(chunks)-1].Hash)
	}
	mib := float64(objects*tree.ChunkSize) / (1 << 20)
	cpu, _, err := s.CPU()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := s.peer.PushObjects(ctx, changes.FromSlice(chunks)); err != nil {
		return err
	}
	pushed := time.Since(begin)
	after, _, err := s.CPU()
	if err != nil {
		return err
	}
	begin = time.Now()
	stream, err := s.peer.FetchObjects(ctx, hashes)
	if err != nil {
		return err
	}
	got := 0
	for _, err := range changes.All(ctx, stream) {
		if err != nil {
			return err
		}
		got++
	}
	if got != objects {
		return fmt.Errorf("fetched %d objects of %d", got, objects)
	}
	r.atLeast("push objects", mib/pushed.Seconds(), "MiB/s", "reference 18", 180)
	r.atLeast("fetch objects", mib/time.Since(begin).Seconds(), "MiB/s", "reference 14", 140)
	r.plain("push objects, cpu", (after-cpu).Seconds()*1000/mib, "ms/MiB", "of the server")
	return nil
}

// moveEntries pushes entries of files whose content is there, and lists them.
func moveEntries(ctx context.Context, s *served, r *report) error {
	data := []byte("the content of all of them\n")
	hash := tree.Sum(data)
	if err := s.peer.PushObjects(ctx, changes.FromSlice([]tree.Data{{Hash: hash, Bytes: data}})); err != nil {
		return err
	}
	before, err := s.peer.Watermarks(ctx, true)
	if err != nil {
		return err
	}
	list := make([]tree.Entry, entries)
	now := time.Now().Truncate(time.Millisecond)
	for i := range list {
		list[i] = tree.Entry{
			Kind: tree.KindFile, Rev: int64(i + 1), Path: fmt.Sprintf(mountPoint+"/dir %02d/file %04d", i/100, i), Mode: 0o644, MTime: now,
			Size: int64(len(data)), Parts: []tree.Part{{Hash: hash, Size: int64(len(data))}},
		}
	}
	begin := time.Now()
	if _, err := s.peer.Push(ctx, changes.PushInput{SenderRev: entries}, changes.FromSlice(list)); err != nil {
		return err
	}
	pushed := entries / time.Since(begin).Seconds()
	alone, err := fileRate(filepath.Dir(s.dir), data)
	if err != nil {
		return err
	}
	r.atLeast("push entries", pushed, "/s", fmt.Sprintf("reference 1,370; the files alone %.0f", alone), 13_700)

	// What was brought is looked at once more, since a command may have changed it.
	begin = time.Now()
	if _, err := s.peer.Watermarks(ctx, true); err != nil {
		return err
	}
	r.plain("settle after it", time.Since(begin).Seconds()*1000, "ms", "")

	begin = time.Now()
	n, err := s.list(ctx, tree.At(before.CurrentRev))
	if err != nil {
		return err
	}
	if n < entries {
		return fmt.Errorf("listed %d entries of %d", n, entries)
	}
	r.atLeast("list entries", float64(n)/time.Since(begin).Seconds(), "/s", "reference 1,600 to 2,700", 27_000)
	rss, err := s.rss()
	r.atMost("rss after these", rss, "MiB", "reference 298", 60)
	return err
}

// list reads the change stream from a cursor on.
func (s *served) list(ctx context.Context, after tree.Cursor) (n int, err error) {
	f, err := s.peer.FetchChanges(ctx, changes.FetchQuery{After: after, Ignore: []string{}})
	if err != nil {
		return 0, err
	}
	for _, err := range changes.All(ctx, f.Entries) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// fileRate makes as many files as moveEntries pushes, each with a name of its own that is
// then changed, and returns how many a second: what the file system has to give.
func fileRate(parent string, data []byte) (float64, error) {
	dir, err := os.MkdirTemp(parent, "files-")
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	for i := range entries {
		sub := filepath.Join(dir, fmt.Sprintf("dir %02d", i/100))
		if i%100 == 0 {
			if err := os.Mkdir(sub, 0o700); err != nil {
				return 0, err
			}
		}
		temp := filepath.Join(sub, "new")
		if err := os.WriteFile(temp, data, 0o600); err != nil {
			return 0, err
		}
		if err := os.Rename(temp, filepath.Join(sub, fmt.Sprintf("file %04d", i))); err != nil {
			return 0, err
		}
	}
	return entries / time.Since(begin).Seconds(), nil
}
