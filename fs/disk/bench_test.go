package disk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// cpu is how much of the processors' time this process has had, or those it waited for.
func cpu(who int) time.Duration {
	var r unix.Rusage
	_ = unix.Getrusage(who, &r) // it never fails
	return time.Duration(unix.TimevalToNsec(r.Utime) + unix.TimevalToNsec(r.Stime))
}

// BenchmarkApply brings 15,000 new files.
func BenchmarkApply(b *testing.B) {
	var used time.Duration
	defer func() { b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op") }()
	for b.Loop() {
		b.StopTimer()
		ws := newBench(b, disk.Config{})
		list := source(ws, 15_000)
		from := cpu(unix.RUSAGE_SELF)
		b.StartTimer()
		ws.apply(list...)
		b.StopTimer()
		used += cpu(unix.RUSAGE_SELF) - from
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

// BenchmarkSettleNothing settles 15,000 files of which none has changed, and git does the
// like.
func BenchmarkSettleNothing(b *testing.B) {
	for _, watch := range []bool{false, true} {
		b.Run(fmt.Sprintf("watch=%v", watch), func(b *testing.B) {
			ws := newBench(b, disk.Config{Watch: watch})
			fill(ws, 15_000)
			quiet(ws)
			from := cpu(unix.RUSAGE_SELF)
			for b.Loop() {
				ws.settle()
			}
			b.ReportMetric((cpu(unix.RUSAGE_SELF)-from).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
	b.Run("git", func(b *testing.B) {
		git, err := exec.LookPath("git")
		if err != nil {
			b.Skip("there is no git")
		}
		ws := newBench(b, disk.Config{})
		fill(ws, 15_000)
		run := func(args ...string) {
			cmd := exec.CommandContext(b.Context(), git, args...)
			cmd.Dir = ws.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatal(err, string(out))
			}
		}
		run("init", "-q")
		run("add", ".")
		waitTick(ws)
		run("status", "--porcelain")
		from := cpu(unix.RUSAGE_CHILDREN)
		for b.Loop() {
			run("status", "--porcelain")
		}
		b.ReportMetric((cpu(unix.RUSAGE_CHILDREN)-from).Seconds()*1000/float64(b.N), "cpu-ms/op")
	})
}

// BenchmarkSettleOne changes one file among 50,000 and settles.
func BenchmarkSettleOne(b *testing.B) {
	for _, n := range []int{5000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ws := newBench(b, disk.Config{Watch: true})
			fill(ws, n)
			quiet(ws)
			for i := 0; b.Loop(); i++ {
				ws.write("top2/dir222/file2222.txt", fmt.Sprint("changed ", i))
				ws.settle()
			}
			b.StopTimer()
			if n := ws.ws.Stats().Passes; n > 4 {
				b.Errorf("all of it was looked at %d times", n)
			}
		})
	}
}

// BenchmarkBigFile changes a byte of a file of 256 MB.
func BenchmarkBigFile(b *testing.B) {
	ws := newBench(b, disk.Config{Watch: true})
	data := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	f, err := os.Create(ws.path("big"))
	ws.must(err)
	for i := range 256 {
		data[0], data[1<<19] = byte(i), byte(i)
		_, err := f.Write(data)
		ws.must(err)
	}
	quiet(ws)
	for i := 0; b.Loop(); i++ {
		_, err := f.WriteAt([]byte{byte(i), byte(i >> 8)}, 100<<20+5)
		ws.must(err)
		ws.settle()
	}
	ws.must(f.Close())
}

// BenchmarkHeap settles 100,000 files, and says how much memory that takes.
func BenchmarkHeap(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		ws := newBench(b, disk.Config{Watch: true})
		text := []byte("some text, the same in all of them")
		for i := range 100_000 {
			dir := ws.path(fmt.Sprintf("top%d/dir%d", i/1000, i/20))
			if i%20 == 0 {
				ws.must(os.MkdirAll(dir, 0o755))
			}
			ws.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d.txt", i)), text, 0o644))
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		stop, done := make(chan struct{}), make(chan uint64)
		go func() { // ends below
			var most uint64
			for {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
				select {
				case <-stop:
					done <- most
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		b.StartTimer()
		ws.settle()
		b.StopTimer()
		close(stop)
		most := <-done
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "kept-MiB")
		ws.close()
		b.StartTimer()
	}
}
