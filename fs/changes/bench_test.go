package changes_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// sources is n files of about 4 KiB, as a source tree has them.
func sources(n int) ([]tree.Data, []tree.Entry) {
	data, entries := make([]tree.Data, n), make([]tree.Entry, n)
	for i := range n {
		b := make([]byte, 4096+i%977)
		for k := 0; k+8 <= len(b); k += 8 {
			binary.LittleEndian.PutUint64(b[k:], uint64(i*k)*0x9e3779b97f4a7c15)
		}
		data[i] = tree.Data{Hash: tree.Sum(b), Bytes: b}
		entries[i] = tree.Entry{
			Kind: tree.KindFile, Rev: int64(i + 1), Path: fmt.Sprintf("/workspace/src/%d/%d.go", i/20, i), Mode: 0o644,
			MTime: entryTime, Size: int64(len(b)), Parts: []tree.Part{{Hash: data[i].Hash, Size: int64(len(b))}},
		}
	}
	return data, entries
}

// Pushing a source tree of 15,000 files: asking, objects, entries, into a database.
func BenchmarkPush15000(b *testing.B) {
	data, entries := sources(15_000)
	hashes := hashesOf(entries)
	var objects, applied float64
	for b.Loop() {
		e := endOn(b, database(b).Tree(), changes.Config{})
		if _, err := e.HasObjects(b.Context(), hashes); err != nil {
			b.Fatal(err)
		}
		start := b.Elapsed()
		if err := e.PushObjects(b.Context(), changes.FromSlice(data)); err != nil {
			b.Fatal(err)
		}
		objects += (b.Elapsed() - start).Seconds()
		start = b.Elapsed()
		if _, err := e.push(15_000, entries...); err != nil {
			b.Fatal(err)
		}
		applied += (b.Elapsed() - start).Seconds()
	}
	n := float64(b.N * len(data))
	b.ReportMetric(n/objects, "objects/s")
	b.ReportMetric(n/applied, "entries/s")
}

// Fetching that tree: entries, objects, and both as a pack.
func BenchmarkFetch15000(b *testing.B) {
	data, entries := sources(15_000)
	e := endOn(b, database(b).Tree(), changes.Config{})
	if err := e.PushObjects(b.Context(), changes.FromSlice(data)); err != nil {
		b.Fatal(err)
	}
	if _, err := e.push(15_000, entries...); err != nil {
		b.Fatal(err)
	}
	hashes := hashesOf(entries)
	for _, what := range []string{"entries", "objects", "pack"} {
		b.Run(what, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n += fetchAll(b, e, what, hashes)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

func fetchAll(b *testing.B, e *end, what string, hashes []tree.Hash) int {
	ctx := context.Background()
	switch what {
	case "objects":
		s, err := e.FetchObjects(ctx, hashes)
		if err != nil {
			b.Fatal(err)
		}
		return drainAll(b, s)
	case "pack":
		p, err := e.FetchChangePack(ctx, changes.PackQuery{MaxEntries: 20_000, MaxBytes: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		drainAll(b, p.Pieces)
		return p.Entries
	}
	f, err := e.FetchChanges(ctx, changes.FetchQuery{})
	if err != nil {
		b.Fatal(err)
	}
	return drainAll(b, f.Entries)
}

func drainAll[T any](b *testing.B, s changes.Stream[T]) int {
	n := 0
	for _, err := range changes.All(context.Background(), s) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	return n
}

// Large objects, both ways.
func BenchmarkObjects(b *testing.B) {
	e := endOn(b, database(b).Tree(), changes.Config{})
	const n = 64
	b.SetBytes(2 * n * tree.ChunkSize)
	round := uint64(0)
	for b.Loop() {
		round++
		var hashes []tree.Hash
		i := 0
		err := e.PushObjects(b.Context(), changes.FromFunc(func(context.Context) (tree.Data, error) {
			if i++; i > n {
				return tree.Data{}, io.EOF
			}
			data := make([]byte, tree.ChunkSize)
			binary.LittleEndian.PutUint64(data, round<<32|uint64(i))
			d := tree.Data{Hash: tree.Sum(data), Bytes: data}
			hashes = append(hashes, d.Hash)
			return d, nil
		}, nil))
		if err != nil {
			b.Fatal(err)
		}
		s, err := e.FetchObjects(b.Context(), hashes)
		if err != nil {
			b.Fatal(err)
		}
		drainAll(b, s)
	}
}

// The heap while 100,000 entries are fetched from a database, and the time for it.
func BenchmarkBaseline100000(b *testing.B) {
	e := endOn(b, database(b).Tree(), changes.Config{SpoolDir: b.TempDir()})
	e.keep("x")
	i := 0
	_, err := e.Push(b.Context(), changes.PushInput{SenderRev: 1}, changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if i++; i > 100_000 {
			return tree.Entry{}, io.EOF
		}
		return fileEntry(int64(i), fmt.Sprintf("/workspace/dir%d/file%d", i%100, i), 0o644, "x"), nil
	}, nil))
	if err != nil {
		b.Fatal(err)
	}
	base, peak := heap(), int64(0)
	for b.Loop() {
		f, err := e.FetchChanges(b.Context(), changes.FetchQuery{})
		if err != nil {
			b.Fatal(err)
		}
		count := 0
		for _, err := range changes.All(b.Context(), f.Entries) {
			if err != nil {
				b.Fatal(err)
			}
			if count++; count%10_000 == 0 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, int64(m.HeapAlloc)-base)
			}
		}
	}
	b.ReportMetric(float64(peak>>20), "heap-MiB")
}
