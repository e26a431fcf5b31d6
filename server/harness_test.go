package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// fakeProcesses is the session-lived service of these tests. It counts instead of
// running programs: process/start begins a counter whose numbers are kept in a log
// and notified, as a process's output is.
type fakeProcesses struct {
	session *Session
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	busy    bool // not idle
	onClose func()

	mu     sync.Mutex
	closed bool
	log    []uint64
}

type startParams struct {
	ProcessID string   `json:"processId"`
	Argv      []string `json:"argv"`
}

type processParams struct {
	ProcessID string  `json:"processId"`
	AfterSeq  *uint64 `json:"afterSeq,omitempty" wire:"nullable"`
	WaitMs    *uint64 `json:"waitMs,omitempty" wire:"nullable"`
}

type readResult struct {
	Seqs []uint64 `json:"seqs"`
}

type outputParams struct {
	Seq   uint64 `json:"seq"`
	Chunk []byte `json:"chunk"`
}

// start begins what argv says: "count" notifies a number each millisecond, "yes"
// notifies 8 KiB as often as it can, anything else does nothing.
func (p *fakeProcesses) start(_ context.Context, params *startParams) (*startParams, error) {
	if len(params.Argv) == 0 {
		return nil, protocol.InvalidParams("argv must not be empty")
	}
	switch params.Argv[0] {
	case "count":
		p.wg.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for p.ctx.Err() == nil {
				select {
				case <-tick.C:
					_ = p.emit(nil) // kept, told or not
				case <-p.ctx.Done():
				}
			}
		})
	case "yes":
		p.wg.Go(func() {
			chunk := make([]byte, 8<<10)
			for p.ctx.Err() == nil {
				if err := p.emit(chunk); errors.Is(err, rpc.ErrClosed) {
					return
				}
			}
		})
	}
	return params, nil
}

// emit keeps the next number and tells it.
func (p *fakeProcesses) emit(chunk []byte) error {
	p.mu.Lock()
	seq := uint64(len(p.log)) + 1
	p.log = append(p.log, seq)
	p.mu.Unlock()
	return p.session.Notify(p.ctx, protocol.NotifyProcessOutput, outputParams{Seq: seq, Chunk: chunk})
}

func (p *fakeProcesses) read(ctx context.Context, params *processParams) (*readResult, error) {
	if params.WaitMs != nil {
		rpc.Async(ctx)
		timeout := time.NewTimer(time.Duration(*params.WaitMs) * time.Millisecond)
		defer timeout.Stop()
		select {
		case <-timeout.C:
		case <-ctx.Done():
		case <-p.ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result := &readResult{Seqs: []uint64{}}
	for _, seq := range p.log {
		if params.AfterSeq == nil || seq > *params.AfterSeq {
			result.Seqs = append(result.Seqs, seq)
		}
	}
	return result, nil
}

func (p *fakeProcesses) terminate(context.Context, *processParams) (*protocol.Empty, error) {
	p.stop()
	return &protocol.Empty{}, nil
}

func (p *fakeProcesses) Idle() bool { return !p.busy }

func (p *fakeProcesses) Close() error {
	p.stop()
	p.wg.Wait()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if p.onClose != nil {
		p.onClose()
	}
	return nil
}

func (p *fakeProcesses) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// fakeFiles is the connection-lived service.
type fakeFiles struct {
	notifier rpc.Notifier
	closed   chan struct{}
	noted    string // by the last notification
}

type pathParams struct {
	Path string `json:"path"`
}

func (f *fakeFiles) getMetadata(_ context.Context, p *pathParams) (*pathParams, error) {
	select {
	case <-f.closed:
		panic("request after Close")
	default:
	}
	return p, nil
}

// note takes a notification, and noted tells of it.
func (f *fakeFiles) note(p *pathParams) error {
	if p.Path == "" {
		return protocol.InvalidParams("nothing to note")
	}
	f.noted = p.Path
	return nil
}

func (f *fakeFiles) wasNoted(context.Context, *protocol.Empty) (*pathParams, error) {
	return &pathParams{Path: f.noted}, nil
}

func (f *fakeFiles) big(context.Context, *protocol.Empty) (*pathParams, error) {
	return &pathParams{Path: strings.Repeat("x", 64<<10)}, nil
}

func (f *fakeFiles) crash(context.Context, *protocol.Empty) (*pathParams, error) { panic("told to") }

func (f *fakeFiles) Close() error {
	close(f.closed)
	return nil
}

// world is a server with the fakes, which are kept as they are made.
type world struct {
	*Server
	t *testing.T

	mu        sync.Mutex
	processes []*fakeProcesses
	files     []*fakeFiles
}

func newTable() *rpc.Table {
	t := rpc.NewTable()
	Register(t)
	rpc.Handle(t, rpc.Spec[startParams]{Name: protocol.MethodProcessStart, Family: "exec"}, (*fakeProcesses).start)
	rpc.Handle(t, rpc.Spec[processParams]{Name: protocol.MethodProcessRead, Family: "exec"}, (*fakeProcesses).read)
	rpc.Handle(t, rpc.Spec[processParams]{Name: protocol.MethodProcessTerminate, Family: "exec"}, (*fakeProcesses).terminate)
	rpc.Handle(t, rpc.Spec[pathParams]{Name: protocol.MethodFsGetMetadata, Family: "filesystem"}, (*fakeFiles).getMetadata)
	rpc.HandleNotification(t, "test/note", (*fakeFiles).note)
	rpc.Handle(t, rpc.Spec[protocol.Empty]{Name: "test/noted", Family: "test", Order: rpc.Always[protocol.Empty](rpc.Inline)}, (*fakeFiles).wasNoted)
	rpc.Handle(t, rpc.Spec[protocol.Empty]{Name: "test/big", Family: "test"}, (*fakeFiles).big)
	rpc.Handle(t, rpc.Spec[protocol.Empty]{Name: "test/crash", Family: "test"}, (*fakeFiles).crash)
	return t
}

// newWorld makes a server that is closed with the test.
func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{t: t}
	cfg.Table = newTable()
	cfg.NewSession = func(s *Session) []rpc.Service {
		p := &fakeProcesses{session: s}
		p.ctx, p.stop = context.WithCancel(context.Background())
		w.mu.Lock()
		defer w.mu.Unlock()
		w.processes = append(w.processes, p)
		return []rpc.Service{p}
	}
	cfg.NewConnection = func(n rpc.Notifier) []rpc.Service {
		f := &fakeFiles{notifier: n, closed: make(chan struct{})}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.files = append(w.files, f)
		return []rpc.Service{f}
	}
	cfg.Info = func() protocol.EnvironmentInfo {
		return protocol.EnvironmentInfo{ExecutorVersion: "test", PrependPathDirs: []string{}, TemporaryDirectories: []string{}, Capabilities: map[string]bool{}}
	}
	w.Server = New(cfg)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
		for i, p := range w.processes {
			if !p.isClosed() {
				t.Errorf("the services of session %d were not closed", i)
			}
		}
		for i, f := range w.files {
			select {
			case <-f.closed:
			default:
				t.Errorf("the services of connection %d were not closed", i)
			}
		}
	})
	return w
}

// client is the raw other end of a connection.
type client struct {
	t    *testing.T
	conn rpc.Connection
	done chan error // what ServeConnection returned
}

// dial connects over a Pair.
func (w *world) dial(opts ConnectionOptions) *client {
	w.t.Helper()
	near, far := rpc.Pair()
	return w.serve(near, far, opts)
}

// serve has the server serve near, and speaks on far.
func (w *world) serve(near, far rpc.Connection, opts ConnectionOptions) *client {
	c := &client{t: w.t, conn: far, done: make(chan error, 1)}
	go func() { c.done <- w.ServeConnection(context.Background(), near, opts) }()
	w.t.Cleanup(func() { far.Close() })
	return c
}

// patience bounds what should happen at once.
const patience = 60 * time.Second

func (c *client) send(msgs ...string) {
	c.t.Helper()
	for _, msg := range msgs {
		if err := c.conn.Write(c.t.Context(), []byte(msg)); err != nil {
			c.t.Fatalf("send %.100s: %v", msg, err)
		}
	}
}

func (c *client) receive() string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	msg, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	return string(msg)
}

// want receives a message and compares it.
func (c *client) want(want string) {
	c.t.Helper()
	if got := c.receive(); got != want {
		c.t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// wantError receives an error and compares id and code.
func (c *client) wantError(id string, code protocol.Code) string {
	c.t.Helper()
	msg := c.receive()
	var env struct {
		ID    json.RawMessage
		Error *protocol.Error
	}
	if err := json.Unmarshal([]byte(msg), &env); err != nil || env.Error == nil {
		c.t.Fatalf("no error response: %.200s", msg)
	}
	if string(env.ID) != id || env.Error.Code != code {
		c.t.Fatalf("got %.200s, want id %s and code %d", msg, id, code)
	}
	return env.Error.Message
}

// open goes through the handshake, resuming a session if its id is given, and returns
// the session's id.
func (c *client) open(resume string) string {
	c.t.Helper()
	id := c.initialize(resume)
	c.send(`{"method":"initialized","params":{}}`)
	return id
}

func (c *client) initialize(resume string) string {
	c.t.Helper()
	c.send(initializeRequest(resume))
	return c.sessionID(c.receive())
}

func initializeRequest(resume string) string {
	if resume == "" {
		return `{"id":"init","method":"initialize","params":{"clientName":"test"}}`
	}
	return `{"id":"init","method":"initialize","params":{"clientName":"test","resumeSessionId":"` + resume + `"}}`
}

func (c *client) sessionID(answer string) string {
	c.t.Helper()
	var env struct {
		Result *struct{ SessionID string }
	}
	if err := json.Unmarshal([]byte(answer), &env); err != nil || env.Result == nil {
		c.t.Fatalf("initialize: %s", answer)
	}
	return env.Result.SessionID
}

// ping shows that the connection is served.
func (c *client) ping() {
	c.t.Helper()
	c.send(`{"id":"ping","method":"fs/getMetadata","params":{"path":"p"}}`)
	c.want(`{"id":"ping","result":{"path":"p"}}`)
}

// ended waits for the end of the connection.
func (c *client) ended() {
	c.t.Helper()
	_ = c.outcome() // of no interest to the caller
}

// outcome waits for the end of the connection and returns what the server makes of it.
func (c *client) outcome() error {
	c.t.Helper()
	select {
	case err := <-c.done:
		c.done <- err
		return err
	case <-time.After(patience):
		c.t.Fatal("the server still serves the connection")
		return nil
	}
}

// process returns the processes of the i-th session.
func (w *world) process(i int) *fakeProcesses {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[i]
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}
