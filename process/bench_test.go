package process_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

// counter is a Notifier that counts.
type counter struct {
	bytes  atomic.Int64
	chunks atomic.Int64
	closed chan struct{}
}

func newCounter() *counter { return &counter{closed: make(chan struct{}, 4096)} }

func (c *counter) Notify(_ context.Context, method string, params any) error {
	switch method {
	case protocol.NotifyProcessOutput:
		c.bytes.Add(int64(len(params.(*protocol.OutputParams).Chunk)))
		c.chunks.Add(1)
	case protocol.NotifyProcessClosed:
		c.closed <- struct{}{}
	}
	return nil
}

// cpuTime is what this program has used, without its children, in nanoseconds.
func cpuTime() int64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return use.Utime.Nano() + use.Stime.Nano()
}

// BenchmarkSpawn is one command from its start to its last event.
func BenchmarkSpawn(b *testing.B) {
	c := connect(b)
	cpu := cpuTime()
	n := 0
	for b.Loop() {
		n++
		c.run(c.params(fmt.Sprint("p", n), "true"))
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(n)/1e6, "cpu-ms/op")
}

// BenchmarkSpawnParallel is the same from several clients' worth of requests.
func BenchmarkSpawnParallel(b *testing.B) {
	c := connect(b)
	var n atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.run(c.params(fmt.Sprint("p", n.Add(1)), "true"))
		}
	})
}

// BenchmarkStdout is 64 MiB of output through log and publisher, without a wire.
func BenchmarkStdout(b *testing.B) {
	const size = 64 << 20
	notifier := newCounter()
	service := process.NewService(notifier, process.Config{})
	defer service.Close()
	start := starter(b, service)
	b.SetBytes(size)
	cpu := cpuTime()
	n := 0
	for b.Loop() {
		n++
		start(&protocol.StartParams{
			ProcessID: fmt.Sprint("p", n), Argv: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"},
			Cwd: "file:///", Env: map[string]string{"PATH": searchPath},
		})
		<-notifier.closed
	}
	if got := notifier.bytes.Load(); got != int64(n)*size {
		b.Fatalf("%d bytes, want %d", got, int64(n)*size)
	}
	b.ReportMetric(float64(cpuTime()-cpu)/float64(n)/1e6/(size>>20), "cpu-ms/MiB")
	b.ReportMetric(float64(notifier.bytes.Load())/float64(notifier.chunks.Load()), "B/chunk")
}

// BenchmarkIdle is what a process that does nothing costs.
func BenchmarkIdle(b *testing.B) {
	const count = 200
	for b.Loop() {
		service := process.NewService(newCounter(), process.Config{})
		start := starter(b, service)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range count {
			start(&protocol.StartParams{
				ProcessID: fmt.Sprint("p", i), Argv: []string{"sleep", "1000"},
				Cwd: "file:///", Env: map[string]string{"PATH": searchPath},
			})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/count, "B/process")
		service.Close()
	}
}

// BenchmarkEcho is a key typed into a terminal until it shows.
func BenchmarkEcho(b *testing.B) {
	c := connect(b)
	c.start(tty(c.params("p", "sleep", "1000")))
	n := 0
	for b.Loop() {
		n++
		c.write("p", "x")
		c.await("p", "echo", func(r *record) bool { return len(r.out) >= n })
	}
}
