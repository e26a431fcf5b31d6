package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// patience bounds every wait of these tests. It is for a loaded machine; what must be
// fast is measured.
const patience = 30 * time.Second

// searchPath is the $P of the cases.
const searchPath = "/usr/local/bin:/usr/bin:/bin"

// client speaks to a Service over a Pair.
type client struct {
	t       testing.TB
	peer    *rpc.Peer
	server  *rpc.Peer
	service *process.Service
	dir     string
	table   *rpc.Table
	late    *lateNotifier

	mu    sync.Mutex
	procs map[string]*record
	news  chan struct{} // closed and replaced at every notification
	hold  chan struct{} // notifications wait while it is open; nil at first
}

// record is what was notified of a process.
type record struct {
	seqs    []uint64
	streams map[string][]byte
	out     []byte
	chunks  int
	exited  *protocol.ExitedParams
	closed  bool
	faults  []string
}

// connect makes a Service and a client of it.
func connect(t testing.TB) *client {
	t.Helper()
	return connectWith(t, process.Config{})
}

func connectWith(t testing.TB, cfg process.Config) *client {
	t.Helper()
	c := &client{t: t, dir: t.TempDir(), procs: make(map[string]*record), news: make(chan struct{})}
	table := rpc.NewTable()
	process.Register(table)
	scope := table.NewScope()
	a, b := rpc.Pair()
	late := &lateNotifier{}
	c.table, c.late = table, late
	c.service = process.NewService(late, cfg)
	scope.Bind(c.service)
	c.server = rpc.NewPeer(a, rpc.PeerConfig{Handler: serverHandler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	late.Notifier = c.server
	c.peer = rpc.NewPeer(b, rpc.PeerConfig{Handler: c})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.server.Serve(ctx) })
	wg.Go(func() { _ = c.peer.Serve(ctx) })
	t.Cleanup(func() {
		c.release()
		if err := c.service.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		c.peer.Close()
		c.server.Close()
		wg.Wait()
		for id, r := range c.procs {
			for _, fault := range r.faults {
				t.Errorf("process %s: %s", id, fault)
			}
		}
	})
	return c
}

// raw opens a second connection to the service, which gets the notifications from
// then on, and returns the client's end of it.
func (c *client) raw() rpc.Connection {
	c.t.Helper()
	scope := c.table.NewScope()
	scope.Bind(c.service)
	a, b := rpc.Pair()
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: serverHandler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	c.late.Notifier = server
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(context.Background()) })
	c.t.Cleanup(func() {
		server.Close()
		wg.Wait()
	})
	return b
}

type lateNotifier struct{ rpc.Notifier }

type serverHandler struct{ *rpc.Dispatcher }

func (serverHandler) HandleNotification(context.Context, string, []byte) error { return nil }

func (c *client) HandleRequest(_ context.Context, req *rpc.Request) {
	req.ReplyInline(nil, errors.New("no requests are served here"))
}

func (c *client) HandleNotification(_ context.Context, method string, params []byte) error {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		close(c.news)
		c.news = make(chan struct{})
	}()
	switch method {
	case protocol.NotifyProcessOutput:
		var p protocol.OutputParams
		if err := wire.Unmarshal(params, &p); err != nil {
			return err
		}
		r := c.record(p.ProcessID, p.Seq)
		r.out = append(r.out, p.Chunk...)
		r.streams[p.Stream] = append(r.streams[p.Stream], p.Chunk...)
		r.chunks++
	case protocol.NotifyProcessExited:
		p := new(protocol.ExitedParams)
		if err := wire.Unmarshal(params, p); err != nil {
			return err
		}
		r := c.record(p.ProcessID, p.Seq)
		if r.exited != nil {
			r.faults = append(r.faults, "exited twice")
		}
		r.exited = p
	case protocol.NotifyProcessClosed:
		var p protocol.ClosedParams
		if err := wire.Unmarshal(params, &p); err != nil {
			return err
		}
		r := c.record(p.ProcessID, p.Seq)
		if r.exited == nil {
			r.faults = append(r.faults, "closed before it exited")
		}
		r.closed = true
	default:
		return fmt.Errorf("unexpected notification %s", method)
	}
	return nil
}

// record finds the process of an event and checks that it is the next one.
func (c *client) record(id string, seq uint64) *record {
	r := c.procs[id]
	if r == nil {
		r = &record{streams: make(map[string][]byte)}
		c.procs[id] = r
	}
	if r.closed {
		r.faults = append(r.faults, fmt.Sprintf("event %d after closed", seq))
	}
	if want := uint64(len(r.seqs) + 1); seq != want {
		r.faults = append(r.faults, fmt.Sprintf("event %d in place of %d", seq, want))
	}
	r.seqs = append(r.seqs, seq)
	return r
}

// stall has the client stop reading until release.
func (c *client) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = make(chan struct{})
}

func (c *client) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold != nil {
		close(c.hold)
		c.hold = nil
	}
}

// await waits until done says so of the record of a process, and returns a copy.
func (c *client) await(id string, what string, done func(*record) bool) record {
	c.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		c.mu.Lock()
		news := c.news
		if r := c.procs[id]; r != nil && done(r) {
			out := *r
			c.mu.Unlock()
			return out
		}
		c.mu.Unlock()
		select {
		case <-news:
		case <-limit.C:
			c.mu.Lock()
			r := c.procs[id]
			c.mu.Unlock()
			c.t.Fatalf("process %s: no %s in %v; have %+v", id, what, patience, r)
		}
	}
}

// finish waits for the last event of a process.
func (c *client) finish(id string) record {
	c.t.Helper()
	return c.await(id, "closed", func(r *record) bool { return r.closed })
}

// awaitOutput waits until the output of a process contains text.
func (c *client) awaitOutput(id, text string) record {
	c.t.Helper()
	return c.await(id, fmt.Sprintf("output %q", text), func(r *record) bool { return bytes.Contains(r.out, []byte(text)) })
}

func (c *client) call(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.peer.Call(ctx, method, params, result)
}

// params are those of the cases' "start id [argv…]".
func (c *client) params(id string, argv ...string) *protocol.StartParams {
	return &protocol.StartParams{ProcessID: id, Argv: argv, Cwd: fileuri.Format(c.dir), Env: map[string]string{"PATH": searchPath}}
}

func (c *client) sh(id, script string) *protocol.StartParams { return c.params(id, "sh", "-c", script) }

func tty(p *protocol.StartParams) *protocol.StartParams {
	p.TTY = true
	return p
}

func pipeStdin(p *protocol.StartParams) *protocol.StartParams {
	p.PipeStdin = true
	return p
}

func (c *client) tryStart(p *protocol.StartParams) (protocol.StartResult, error) {
	var result protocol.StartResult
	err := c.call(protocol.MethodProcessStart, p, &result)
	return result, err
}

func (c *client) start(p *protocol.StartParams) protocol.StartResult {
	c.t.Helper()
	result, err := c.tryStart(p)
	if err != nil {
		c.t.Fatalf("start %s: %v", p.ProcessID, err)
	}
	return result
}

// run starts a process and waits for its last event.
func (c *client) run(p *protocol.StartParams) record {
	c.t.Helper()
	c.start(p)
	return c.finish(p.ProcessID)
}

func (c *client) tryWrite(id, data string, writeID *string) (string, error) {
	var result protocol.WriteResult
	err := c.call(protocol.MethodProcessWrite, &protocol.WriteParams{ProcessID: id, Chunk: []byte(data), WriteID: writeID}, &result)
	return result.Status, err
}

func (c *client) write(id, data string) {
	c.t.Helper()
	if status, err := c.tryWrite(id, data, nil); err != nil || status != protocol.WriteAccepted {
		c.t.Fatalf("write to %s: %q, %v", id, status, err)
	}
}

func (c *client) read(p *protocol.ReadParams) protocol.ReadResult {
	c.t.Helper()
	var result protocol.ReadResult
	if err := c.call(protocol.MethodProcessRead, p, &result); err != nil {
		c.t.Fatalf("read %s: %v", p.ProcessID, err)
	}
	return result
}

func (c *client) terminate(id string) bool {
	c.t.Helper()
	var result protocol.TerminateResult
	if err := c.call(protocol.MethodProcessTerminate, &protocol.TerminateParams{ProcessID: id}, &result); err != nil {
		c.t.Fatalf("terminate %s: %v", id, err)
	}
	return result.Running
}

func (c *client) list(scope *string) []protocol.ProcessInfo {
	c.t.Helper()
	var result protocol.ListResult
	if err := c.call(protocol.MethodProcessList, &protocol.ListParams{Scope: scope}, &result); err != nil {
		c.t.Fatalf("list: %v", err)
	}
	return result.Processes
}

// file makes a file in the client's directory.
func (c *client) file(name, content string, mode os.FileMode) string {
	c.t.Helper()
	path := c.dir + "/" + name
	if i := strings.LastIndex(path, "/"); i > 0 {
		if err := os.MkdirAll(path[:i], 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// wantError checks the code of an error, and the kind in its data unless that is "".
func wantError(t testing.TB, err error, code protocol.Code, kind string) *protocol.Error {
	t.Helper()
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok || failure.Code != code {
		t.Fatalf("got %v, want an error with code %d", err, code)
	}
	var data protocol.SpawnErrorData
	if raw, ok := failure.Data.(protocol.RawData); ok {
		if err := wire.Unmarshal(raw, &data); err != nil {
			t.Fatal(err)
		}
	}
	if data.Kind != kind {
		t.Errorf("error %q has kind %q, want %q", failure.Message, data.Kind, kind)
	}
	return failure
}

// want checks how a process ended and what it printed.
func (r record) want(t testing.TB, out string, code int) {
	t.Helper()
	if string(r.out) != out {
		t.Errorf("output is %q, want %q", r.out, out)
	}
	if r.exited.ExitCode != code {
		t.Errorf("exit code is %d, want %d", r.exited.ExitCode, code)
	}
}

// eventually waits for something that sends no event, such as the end of a process
// that is nobody's child here.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// directInfo is list without the connection.
func (c *client) directInfo(id string) protocol.ProcessInfo {
	c.t.Helper()
	for _, info := range process.InfosOf(c.service) {
		if info.ProcessID == id {
			return info
		}
	}
	c.t.Fatalf("process %s is not listed", id)
	return protocol.ProcessInfo{}
}
