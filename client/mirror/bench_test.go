package mirror

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// benchWorld is two ends in databases.
func benchWorld(b *testing.B) *world {
	b.Helper()
	w := &world{t: b, local: newEnd(b, 100), remote: newEnd(b, 1000)}
	for name, e := range map[string]*end{"local": w.local, "remote": w.remote} {
		db, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), name+".db")})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		e.open(db.Tree(), 100)
	}
	w.restart()
	return w
}

// BenchmarkEntries moves small files, each of its own content, there and from there.
func BenchmarkEntries(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		b.StopTimer()
		w := benchWorld(b)
		fill(b, w.local, n)
		b.StartTimer()
		w.sync()
		b.StopTimer()
		v := &world{t: b, local: newEnd(b, 100), remote: w.remote}
		v.restart()
		b.StartTimer()
		v.sync()
	}
	b.ReportMetric(float64(2*n*b.N)/b.Elapsed().Seconds(), "entries/s")
}

func fill(b *testing.B, e *end, n int) {
	b.Helper()
	for i := 0; i < n; i += 1000 {
		_, err := e.tree.Update(b.Context(), func(ed *tree.Edit) error {
			for k := i; k < min(i+1000, n); k++ {
				data := fmt.Appendf(nil, "file %d", k)
				d := tree.Data{Hash: tree.Sum(data), Bytes: data}
				if err := ed.PutChunks(d); err != nil {
					return err
				}
				f := tree.File{Parts: []tree.Part{{Hash: d.Hash, Size: int64(len(data))}}}
				if err := ed.PutFile(fmt.Sprintf("/d%d/f%d", k/100, k), f); err != nil {
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

// BenchmarkObjects moves a large file.
func BenchmarkObjects(b *testing.B) {
	const chunks = 128
	data := make([]byte, chunks*tree.ChunkSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	b.SetBytes(2 * int64(len(data)))
	for b.Loop() {
		b.StopTimer()
		w := benchWorld(b)
		if _, err := w.local.tree.WriteFile(b.Context(), "/f", bytes.NewReader(data), tree.File{}); err != nil {
			b.Fatal(err)
		}
		v := benchWorld(b)
		v.remote = w.remote
		v.restart()
		b.StartTimer()
		w.sync()
		v.sync()
	}
}
