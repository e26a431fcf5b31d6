package sqlite

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// BenchmarkCreate makes files of 2 KiB, in a transaction each, as one call of a workspace
// does.
func BenchmarkCreate(b *testing.B) {
	_, tr := theTree(b, open(b, temporary(b)))
	text := strings.Repeat("x", 2040)
	for i := 0; b.Loop(); i++ {
		write(b, tr, fmt.Sprintf("/d%d/e%d/f%d", i%10, i%100, i), fmt.Sprintf("%s%08d", text, i))
	}
}

// BenchmarkApply applies entries in batches of 1,000, as a push does.
func BenchmarkApply(b *testing.B) {
	_, tr := theTree(b, open(b, temporary(b)))
	fill(b, tr, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// fill makes n files with one content in directories of 100.
func fill(b testing.TB, tr *tree.Tree, n int) {
	b.Helper()
	write(b, tr, "/seed", "content")
	seed, err := tr.Entry(b.Context(), "/seed")
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < n; from += 1000 {
		_, err := tr.Update(b.Context(), func(e *tree.Edit) error {
			for i := from; i < min(from+1000, n); i++ {
				seed.Path = fmt.Sprintf("/tree/dir%d/sub%d/file%d", i/10_000, i/100, i)
				if _, err := e.Apply(&seed, tree.SkipSame); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChanges lists all of a tree from the start.
func BenchmarkChanges(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, tr := theTree(b, open(b, temporary(b)))
			fill(b, tr, n)
			var most uint64
			for b.Loop() {
				c, err := tr.Changes(b.Context(), tree.ChangesQuery{})
				if err != nil {
					b.Fatal(err)
				}
				count := 0
				for _, err := range c.All(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					if count++; count == n/2 {
						b.StopTimer()
						var m runtime.MemStats
						runtime.GC()
						runtime.ReadMemStats(&m)
						most = max(most, m.HeapAlloc)
						b.StartTimer()
					}
				}
				if count < n {
					b.Fatal(count)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(most)/(1<<20), "MiB")
		})
	}
}

// BenchmarkOneChange is one changed file, seen in trees of several sizes.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, tr := theTree(b, open(b, temporary(b)))
			fill(b, tr, n)
			for i := 0; b.Loop(); i++ {
				rev := write(b, tr, "/tree/dir0/sub5/file500", fmt.Sprint(i))
				c, err := tr.Changes(b.Context(), tree.ChangesQuery{After: tree.At(rev - 1)})
				if err != nil {
					b.Fatal(err)
				}
				if list, err := c.Next(b.Context(), 10); err != nil || len(list) != 1 {
					b.Fatal(list, err)
				}
			}
		})
	}
}

// BenchmarkStage writes content that is all new, and BenchmarkRead reads it.
func BenchmarkStage(b *testing.B) {
	f, _ := theTree(b, open(b, temporary(b)))
	text := make([]byte, 32*tree.ChunkSize)
	rand.Read(text)
	b.SetBytes(int64(len(text)))
	for i := 0; b.Loop(); i++ {
		for at := 0; at < len(text); at += tree.ChunkSize {
			copy(text[at:], fmt.Sprintf("%08d", i))
		}
		if _, err := f.Stage(b.Context(), bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	f, tr := theTree(b, open(b, temporary(b)))
	text := make([]byte, 32*tree.ChunkSize)
	rand.Read(text)
	if _, err := tr.WriteFile(b.Context(), "/f", bytes.NewReader(text), tree.File{}); err != nil {
		b.Fatal(err)
	}
	e, err := tr.Entry(b.Context(), "/f")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	var buf []byte
	for b.Loop() {
		for _, p := range e.Parts {
			if buf, err = f.Chunk(b.Context(), p.Hash, buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkStat(b *testing.B) {
	_, tr := theTree(b, open(b, temporary(b)))
	write(b, tr, "/a/b/c/d/e", "x")
	for b.Loop() {
		if _, err := tr.Stat(b.Context(), "/a/b/c/d/e"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMove moves a directory of 10,000 files, which is one row, and every hundredth
// time has the tombs of all of it written.
func BenchmarkMove(b *testing.B) {
	_, tr := theTree(b, open(b, temporary(b)))
	fill(b, tr, 10_000)
	if err := tr.Share(b.Context()); err != nil {
		b.Fatal(err)
	}
	names := [2]string{"/tree", "/moved"}
	update := func(fn func(*tree.Edit) error) {
		if _, err := tr.Update(b.Context(), fn); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		update(func(e *tree.Edit) error { return e.Rename(names[i%2], names[1-i%2]) })
		if i%100 == 99 {
			b.StopTimer()
			update(func(e *tree.Edit) error { return e.Chmod(names[1-i%2], 0o755) })
			b.StartTimer()
		}
	}
}

// BenchmarkBury writes the tombs of 10,000 moved paths.
func BenchmarkBury(b *testing.B) {
	_, tr := theTree(b, open(b, temporary(b)))
	fill(b, tr, 10_000)
	if err := tr.Share(b.Context()); err != nil {
		b.Fatal(err)
	}
	names := [2]string{"/tree", "/moved"}
	for i := 0; b.Loop(); i++ {
		_, err := tr.Update(b.Context(), func(e *tree.Edit) error {
			if err := e.Rename(names[i%2], names[1-i%2]); err != nil {
				return err
			}
			return e.Chmod(names[1-i%2], 0o755)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
