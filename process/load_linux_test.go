package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

// TestPipelined sends a whole life at once, without waiting for answers.
func TestPipelined(t *testing.T) {
	c := connect(t)
	conn := c.raw()
	const count = 50
	send := func(format string, args ...any) {
		t.Helper()
		if err := conn.Write(t.Context(), fmt.Appendf(nil, format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for i := range count {
			send(`{"id":"start %d","method":"process/start","params":{"processId":"p%d","argv":["cat"],"cwd":"file:///","env":{"PATH":%q},"tty":false,"pipeStdin":true}}`, i, i, searchPath)
			for range 5 {
				send(`{"id":"write","method":"process/write","params":{"processId":"p%d","chunk":"b25lIA==","writeId":"1"}}`, i)
				send(`{"id":"write","method":"process/write","params":{"processId":"p%d","chunk":"dHdv","writeId":"2"}}`, i)
			}
			send(`{"id":"read","method":"process/read","params":{"processId":"p%d","waitMs":20000}}`, i)
			send(`{"id":"signal","method":"process/signal","params":{"processId":"p%d","signal":"CONT"}}`, i)
			if i%2 == 0 {
				send(`{"id":"closeStdin","method":"process/closeStdin","params":{"processId":"p%d"}}`, i)
			} else {
				send(`{"id":"terminate","method":"process/terminate","params":{"processId":"p%d"}}`, i)
			}
		}
	}()
	answers := map[string]int{}
	out := map[string]string{}
	started := map[string]bool{}
	for closed := 0; closed < count || len(answers) == 0 || answers["read"] < count || answers["start"] < count; {
		msg, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			ID, Method string
			Error      any
			Result     struct {
				ProcessID, Status string
				Running           bool
			}
			Params struct {
				ProcessID string
				Chunk     []byte
			}
		}
		if err := json.Unmarshal(msg, &got); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(got.ID, " ")
		answers[kind]++
		if got.Error != nil || kind == "write" && got.Result.Status != protocol.WriteAccepted || kind == "terminate" && !got.Result.Running {
			t.Errorf("answer is %s", msg)
		}
		switch {
		case kind == "start":
			started[got.Result.ProcessID] = true
		case got.Method != "" && !started[got.Params.ProcessID]:
			t.Errorf("an event before the answer to the start: %s", msg)
		case got.Method == protocol.NotifyProcessOutput:
			out[got.Params.ProcessID] += string(got.Params.Chunk)
		case got.Method == protocol.NotifyProcessClosed:
			closed++
		}
	}
	for i := 0; i < count; i += 2 {
		if got := out[fmt.Sprint("p", i)]; got != "one two" {
			t.Errorf("process %d printed %q", i, got)
		}
	}
}

// TestConcurrentCommands runs 1,000 at once and loses none of their ends.
func TestConcurrentCommands(t *testing.T) {
	const count = 1000
	before := runtime.NumGoroutine()
	files := openFiles(t)
	t.Run("run", func(t *testing.T) {
		c := connect(t)
		var wg sync.WaitGroup
		for i := range count {
			wg.Go(func() {
				c.start(pipeStdin(c.sh(fmt.Sprint("p", i), fmt.Sprintf("read x; echo %d $x; exit %d", i, i%200))))
			})
		}
		wg.Wait()
		// All of them run now.
		if running := len(childrenOf(os.Getpid())); running < count {
			t.Errorf("%d of %d run", running, count)
		}
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		if len(threads) > 100 {
			t.Errorf("they take %d threads", len(threads))
		}
		for i := range count {
			wg.Go(func() { c.write(fmt.Sprint("p", i), "go\n") })
		}
		wg.Wait()
		for i := range count {
			c.finish(fmt.Sprint("p", i)).want(t, fmt.Sprintf("%d go\n", i), i%200)
		}
		if left := childrenOf(os.Getpid()); len(left) != 0 {
			t.Errorf("%d children are left, as zombies", len(left))
		}
	})
	eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
	if now := openFiles(t); now > files {
		t.Errorf("%d descriptors are open, %d were before", now, files)
	}
}

// TestNothingIsLeft after all kinds of ends.
func TestNothingIsLeft(t *testing.T) {
	var goroutines, files int
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			c := connect(t)
			c.run(c.params("a", "true"))
			c.run(tty(c.params("b", "true")))
			c.start(pipeStdin(c.params("c", "cat")))
			c.start(tty(c.params("d", "cat")))
			c.start(c.sh("e", "sleep 100 & exit 1"))
			c.start(c.sh("f", "setsid sleep 1 & exit 1")) // out of reach for a second
			c.start(c.sh("g", "yes"))
			p := c.params("h", "sleep", "100")
			p.TimeoutMs = ptr[uint64](100)
			if r := c.run(p); !r.exited.TimedOut || r.exited.ExitCode != 143 {
				t.Errorf("deadline: %+v", r.exited)
			}
			if _, err := c.tryStart(c.params("i", "no-such-program")); err == nil {
				t.Error("a missing program was started")
			}
			c.terminate("c")
			c.finish("c")
		})
		switch {
		case round == 0: // what is made once
			goroutines, files = runtime.NumGoroutine(), openFiles(t)
		default:
			eventually(t, "end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
			if now := openFiles(t); now > files {
				t.Errorf("%d descriptors are open, %d were before", now, files)
			}
		}
		if left := childrenOf(os.Getpid()); len(left) != 0 {
			t.Errorf("children are left: %v", left)
		}
	}
}

// TestReadTellsTheSameStory: read and notifications agree, also when output is busy
// on both streams.
func TestReadTellsTheSameStory(t *testing.T) {
	c := connect(t)
	r := c.run(c.sh("p1", "for i in $(seq 200); do echo out $i; echo err $i >&2; done"))
	streams := make(map[string][]byte)
	var after uint64
	for {
		got := c.read(&protocol.ReadParams{ProcessID: "p1", AfterSeq: &after, MaxBytes: ptr[uint64](500)})
		if len(got.Chunks) == 0 {
			if !got.Closed || got.NextSeq != uint64(len(r.seqs))+1 {
				t.Errorf("at the end: %+v", got)
			}
			break
		}
		for _, chunk := range got.Chunks {
			streams[chunk.Stream] = append(streams[chunk.Stream], chunk.Chunk...)
			after = chunk.Seq
		}
	}
	for stream, data := range r.streams {
		if !bytes.Equal(streams[stream], data) {
			t.Errorf("%s: %d bytes read, %d notified", stream, len(streams[stream]), len(data))
		}
	}
	if want := 200; strings.Count(string(r.streams["stderr"]), "err") != want || strings.Count(string(r.streams["stdout"]), "out") != want {
		t.Error("lines are missing")
	}
}

// TestStalledReaderCostsLittle: a child that would print far more than a client takes that does
// not read.
func TestStalledReaderCostsLittle(t *testing.T) {
	notifier := &gate{counter: newCounter(), open: make(chan struct{})}
	service := process.NewService(notifier, process.Config{})
	var before, stalled runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const total = 256 << 20
	if _, err := process.StartOn(service, &protocol.StartParams{
		ProcessID: "p", Argv: []string{"head", "-c", fmt.Sprint(total), "/dev/zero"}, Cwd: "file:///", Env: map[string]string{"PATH": searchPath},
	}); err != nil {
		t.Fatal(err)
	}
	next := func() uint64 { return process.InfosOf(service)[0].NextSeq }
	last, still := uint64(0), 0
	eventually(t, "stop of the child", func() bool {
		if n := next(); n != last || n < 2 {
			last, still = n, 0
		} else {
			still++
		}
		return still > 40
	})
	runtime.GC()
	runtime.ReadMemStats(&stalled)
	if grown := int64(stalled.HeapInuse) - int64(before.HeapInuse); grown > 4<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	close(notifier.open)
	<-notifier.closed
	if got := notifier.bytes.Load(); got != total {
		t.Errorf("%d bytes were notified", got)
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
}

// gate is a Notifier that lets nothing pass until it is opened.
type gate struct {
	*counter
	open chan struct{}
}

func (g *gate) Notify(ctx context.Context, method string, params any) error {
	select {
	case <-g.open:
		return g.counter.Notify(ctx, method, params)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
