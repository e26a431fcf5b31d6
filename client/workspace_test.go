package client_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/environment"
)

// workspaceServer is a server of a Peer and of Runs, and a Transport to it whose
// connections a test can cut.
type workspaceServer struct {
	srv *server.Server

	mu    sync.Mutex
	conns []rpc.Connection // the server's ends
	wg    sync.WaitGroup
}

// serveWorkspace makes a server that ends with the test. Either may be nil.
func serveWorkspace(t testing.TB, peer changes.Peer, runs shell.ListedRuns) *workspaceServer {
	t.Helper()
	table := rpc.NewTable()
	server.Register(table)
	environment.Register(table)
	stream.Register(table)
	if peer != nil {
		changes.Register(table)
	}
	if runs != nil {
		shell.Register(table)
	}
	env, err := environment.New(environment.Config{Capabilities: environment.Capabilities(table.Names())})
	if err != nil {
		t.Fatal(err)
	}
	s := new(workspaceServer)
	s.srv = server.New(server.Config{
		Table: table,
		NewConnection: func(n rpc.Notifier) []rpc.Service {
			streams := stream.New(n, stream.Config{})
			services := []rpc.Service{env, streams}
			if peer != nil {
				services = append(services, changes.NewService(peer, streams))
			}
			if runs != nil {
				services = append(services, shell.NewService(runs, streams))
			}
			return services
		},
		Info: env.Info,
	})
	t.Cleanup(func() {
		_ = s.srv.Close()
		s.wg.Wait()
	})
	return s
}

func (s *workspaceServer) Kind() string  { return "pair" }
func (s *workspaceServer) Resumes() bool { return true }

func (s *workspaceServer) Connect(context.Context) (rpc.Connection, error) {
	a, b := rpc.Pair()
	s.mu.Lock()
	s.conns = append(s.conns, b)
	s.mu.Unlock()
	s.wg.Go(func() { _ = s.srv.ServeConnection(context.Background(), b, server.ConnectionOptions{}) })
	return a, nil
}

// cut ends all connections.
func (s *workspaceServer) cut() {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// open connects a Client that ends with the test.
func (s *workspaceServer) open(t testing.TB) *client.Client {
	t.Helper()
	c := client.Open(s, nil)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// memoryPeer is a workspace in memory.
func memoryPeer(t testing.TB) *changes.Server {
	t.Helper()
	forest := tree.New(tree.NewMemory(), tree.Config{FirstRev: 1})
	tr, err := forest.Tree(context.Background(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	return changes.New(changes.Config{Workspace: changes.Plain(forest, tr)})
}

// object is an object of n bytes.
func object(n int, seed byte) tree.Data {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) + seed
	}
	return tree.Data{Hash: sha256.Sum256(b), Bytes: b}
}

// fakeRuns are runs whose output is what a test says.
type fakeRuns struct {
	mu      sync.Mutex
	runs    map[string]*fakeRun
	next    int
	started int
	// lost has Exec block, and the connection cut meanwhile by the test.
	lost chan struct{}
}

type fakeRun struct {
	request  shell.Request
	events   []shell.Event
	changed  chan struct{}
	followed bool
	signals  []string
	disposed bool
}

func newFakeRuns() *fakeRuns { return &fakeRuns{runs: make(map[string]*fakeRun)} }

func (f *fakeRuns) Exec(ctx context.Context, r shell.Request) (string, shell.Events, error) {
	f.mu.Lock()
	f.started++
	if r.ID == "" {
		f.next++
		r.ID = fmt.Sprint("run-", f.next)
	}
	f.runs[r.ID] = &fakeRun{request: r, changed: make(chan struct{})}
	lost := f.lost
	f.mu.Unlock()
	if lost != nil {
		close(lost)
		<-ctx.Done()
	}
	events, err := f.GetExec(ctx, r.ID, shell.After{})
	return r.ID, events, err
}

func (f *fakeRuns) Follow(ctx context.Context, id string, after shell.After) (shell.Events, error) {
	return f.GetExec(ctx, id, after)
}

func (f *fakeRuns) GetExec(_ context.Context, id string, after shell.After) (shell.Events, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r == nil {
		return nil, &protocol.NamedError{Code: "ENOENT", Message: "no exec record for id " + id}
	}
	if r.followed {
		return nil, &protocol.NamedError{Code: "EEXEC_BUSY", Message: "exec " + id + " already has a live subscriber"}
	}
	r.followed = true
	e := &fakeEvents{runs: f, run: r, seq: after.Seq}
	e.last = uint64(len(r.events))
	if after.Tail {
		e.seq = e.last
	}
	return e, nil
}

func (f *fakeRuns) List(_ context.Context, ended bool) (list []shell.Info, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, r := range f.runs {
		list = append(list, shell.Info{ID: id, About: shell.About{Command: r.request.Command, Cwd: r.request.Cwd}, PID: 7})
	}
	return list, ended, nil
}

func (f *fakeRuns) KillExec(_ context.Context, id, signal string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	if r == nil {
		return &protocol.NamedError{Code: "ENOENT", Message: "no exec record for id " + id}
	}
	r.signals = append(r.signals, signal)
	return nil
}

func (f *fakeRuns) DisposeExec(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.runs[id]; r != nil {
		r.disposed = true
		close(r.changed)
		delete(f.runs, id)
	}
	return nil
}

// print appends events to a run: output, or an exit.
func (f *fakeRuns) print(id string, events ...shell.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[id]
	for _, e := range events {
		e.ID, e.Seq = id, uint64(len(r.events)+1)
		r.events = append(r.events, e)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (f *fakeRuns) run(id string) fakeRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.runs[id]
}

type fakeEvents struct {
	runs *fakeRuns
	run  *fakeRun
	seq  uint64
	last uint64
}

func (e *fakeEvents) Snapshot() (uint64, bool) { return e.last, false }

func (e *fakeEvents) Next(ctx context.Context) (shell.Event, error) {
	for {
		e.runs.mu.Lock()
		changed, disposed := e.run.changed, e.run.disposed
		if int(e.seq) < len(e.run.events) {
			e.seq++
			out := e.run.events[e.seq-1]
			e.runs.mu.Unlock()
			return out, nil
		}
		ended := e.seq > 0 && e.run.events[e.seq-1].Name == shell.Exit
		e.runs.mu.Unlock()
		if ended || disposed {
			return shell.Event{}, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return shell.Event{}, context.Cause(ctx)
		}
	}
}

func (e *fakeEvents) Close() {
	e.runs.mu.Lock()
	defer e.runs.mu.Unlock()
	e.run.followed = false
}

func stdout(text string) shell.Event { return shell.Event{Name: shell.Stdout, Data: []byte(text)} }
func stderr(text string) shell.Event { return shell.Event{Name: shell.Stderr, Data: []byte(text)} }
func exit(code int) shell.Event      { return shell.Event{Name: shell.Exit, Code: code} }

// Neither is there without a workspace.
func TestWithoutWorkspace(t *testing.T) {
	c := serveWorkspace(t, nil, nil).open(t)
	if _, err := c.Sync().Watermarks(t.Context(), false); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("watermarks: %v", err)
	}
	if _, err := c.Sync().HasObjects(t.Context(), []tree.Hash{{}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("hasObjects: %v", err)
	}
	if _, err := c.Exec(t.Context(), client.DurableCommand{Line: "true"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("exec: %v", err)
	}
	if _, _, err := c.Runs(t.Context(), true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("runs: %v", err)
	}
	for _, capability := range []string{protocol.CapSync, protocol.CapShell, protocol.CapShellList} {
		if ok, err := c.Supports(t.Context(), capability); ok || err != nil {
			t.Errorf("%s: %v, %v", capability, ok, err)
		}
	}
}

// A run can be polled: Next goes on where another Next has ended with its context.
func TestPolledRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := newFakeRuns()
		c := serveWorkspace(t, nil, runs).open(t)
		r, err := c.Exec(t.Context(), client.DurableCommand{Line: "x", ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			text := strings.Repeat(string(rune('a'+i)), 60<<10+i*3001)
			runs.print("r", stdout(text))
			synctest.Wait() // it has arrived before Next is called
			if e, err := r.Next(t.Context()); err != nil || string(e.Data) != text {
				t.Fatalf("%d bytes of %d, %v", len(e.Data), len(text), err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
	})
}
