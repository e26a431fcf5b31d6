package disk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// source makes a tree of n files of about 6 KB, ten in a directory.
func source(b *bench, n int) []tree.Entry {
	b.t.Helper()
	var list []tree.Entry
	text := make([]byte, 6000)
	for i := range text {
		text[i] = byte('a' + i%26)
	}
	var data []tree.Data
	for i := range n {
		if i%10 == 0 {
			list = append(list, folder(fmt.Sprintf("/workspace/top%d/dir%d", i/1000, i/10), 0o755))
		}
		c := fmt.Appendf(nil, "%d %s", i, text)
		d := tree.Data{Hash: tree.Sum(c), Bytes: c}
		data = append(data, d)
		list = append(list, tree.Entry{
			Kind: tree.KindFile, Path: fmt.Sprintf("/workspace/top%d/dir%d/file%d.txt", i/1000, i/10, i), Mode: 0o644, MTime: entryTime,
			Size: int64(len(c)), Parts: []tree.Part{{Hash: d.Hash, Size: int64(len(c))}},
		})
		if len(data) == 500 || i == n-1 {
			_, err := b.forest.PutChunks(context.Background(), data...)
			b.must(err)
			data = nil
		}
	}
	return list
}

// fill writes n files to the directory.
func fill(b *bench, n int) {
	b.t.Helper()
	text := make([]byte, 6000)
	for i := range n {
		dir := filepath.Join(b.dir, fmt.Sprintf("top%d/dir%d", i/1000, i/10))
		if i%10 == 0 {
			b.must(os.MkdirAll(dir, 0o755))
		}
		b.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.txt", i)), fmt.Appendf(nil, "%d %s", i, text), 0o644))
	}
}

// BenchmarkApply brings 15,000 new files.
func BenchmarkApply(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		ws := newBench(b, disk.Config{})
		list := source(ws, 15_000)
		b.StartTimer()
		ws.apply(list...)
		b.StopTimer()
		ws.close()
		b.StartTimer()
	}
	b.ReportMetric(15_000*float64(b.N)/b.Elapsed().Seconds(), "files/s")
}

// BenchmarkBaseline settles 15,000 new files.
func BenchmarkBaseline(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		ws := newBench(b, disk.Config{})
		fill(ws, 15_000)
		b.StartTimer()
		ws.settle()
		b.StopTimer()
		ws.close()
		b.StartTimer()
	}
	b.ReportMetric(15_000*float64(b.N)/b.Elapsed().Seconds(), "files/s")
}

// BenchmarkSettleNothing settles 15,000 files of which none has changed.
func BenchmarkSettleNothing(b *testing.B) {
	for _, watch := range []bool{false, true} {
		b.Run(fmt.Sprintf("watch=%v", watch), func(b *testing.B) {
			ws := newBench(b, disk.Config{Watch: watch})
			fill(ws, 15_000)
			ws.settle()
			ws.settle()
			for b.Loop() {
				ws.settle()
			}
		})
	}
}
