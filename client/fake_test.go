package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// allCaps are what a fake server announces unless told otherwise.
var allCaps = []string{
	protocol.CapFileWriteStreaming, protocol.CapHTTPHeaderEnvVars,
	protocol.CapProcessResize, protocol.CapProcessCloseStdin, protocol.CapProcessSignals, protocol.CapProcessList,
	protocol.CapProcessTimeout, protocol.CapProcessAttach, protocol.CapFsRename, protocol.CapFsSymlink,
	protocol.CapFsReadLink, protocol.CapFsChmod, protocol.CapFsGlob, protocol.CapFsGrep, protocol.CapFsWatch,
	protocol.CapFsConditional, protocol.CapFsAtomicWrites, protocol.CapProcessLimits,
}

// fakeServer is an exec-server whose processes do what a test tells them. It is a
// Transport: each Connect is a new connection to it.
type fakeServer struct {
	caps []string
	// answer, if set, sees each request first; true means that it has answered or
	// never will.
	answer func(conn *fakeConn, req *rpc.Request) bool
	// connect, if set, makes the connection of an attempt, instead of a Pair.
	connect func(attempt int) (client, server rpc.Connection, err error)
	window  int // bytes retained per process; 0 means all

	mu       sync.Mutex
	attempts int
	sessions map[string]*fakeSession
	conns    []*fakeConn
	calls    []fakeCall
	arrived  chan struct{} // closed and replaced with each call
	wg       sync.WaitGroup
}

// fakeCall is a request or notification that arrived.
type fakeCall struct {
	method string
	params []byte
	conn   int // counted from 1
}

type fakeSession struct {
	id        string
	attached  *fakeConn
	processes map[string]*fakeProcess
}

type fakeConn struct {
	server  *fakeServer
	number  int
	peer    *rpc.Peer
	session *fakeSession
	ready   bool
}

// newFake returns a server that ends with the test, all of its goroutines with it.
func newFake(t *testing.T) *fakeServer {
	t.Helper()
	s := &fakeServer{caps: allCaps, sessions: make(map[string]*fakeSession), arrived: make(chan struct{})}
	t.Cleanup(s.close)
	return s
}

func (s *fakeServer) close() {
	s.cut()
	s.wg.Wait()
}

// open connects a Client that ends with the test.
func (s *fakeServer) open(t *testing.T, opts *Options) *Client {
	t.Helper()
	c := Open(s, opts)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *fakeServer) Kind() string  { return "fake" }
func (s *fakeServer) Resumes() bool { return true }

func (s *fakeServer) Connect(context.Context) (rpc.Connection, error) {
	s.mu.Lock()
	s.attempts++
	attempt := s.attempts
	s.mu.Unlock()
	a, b := rpc.Pair()
	if s.connect != nil {
		var err error
		if a, b, err = s.connect(attempt); err != nil {
			return nil, err
		}
	}
	conn := &fakeConn{server: s, number: attempt}
	conn.peer = rpc.NewPeer(b, rpc.PeerConfig{Handler: conn})
	s.mu.Lock()
	s.conns = append(s.conns, conn)
	s.mu.Unlock()
	s.wg.Go(func() {
		_ = conn.peer.Serve(context.Background())
		_ = conn.peer.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if conn.session != nil && conn.session.attached == conn {
			conn.session.attached = nil
		}
	})
	return a, nil
}

// cut ends all connections, from the server's side.
func (s *fakeServer) cut() {
	s.mu.Lock()
	conns := slices.Clone(s.conns)
	s.conns = nil
	s.mu.Unlock()
	for _, conn := range conns {
		_ = conn.peer.Close()
	}
}

// forgetSessions is what a restart does.
func (s *fakeServer) forgetSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = make(map[string]*fakeSession)
}

func (s *fakeServer) record(conn *fakeConn, method string, params []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fakeCall{method, slices.Clone(params), conn.number})
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// count returns how often a method was called.
func (s *fakeServer) count(method string) int { return len(s.called(method)) }

func (s *fakeServer) called(method string) []fakeCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []fakeCall
	for _, call := range s.calls {
		if call.method == method {
			out = append(out, call)
		}
	}
	return out
}

// await returns the n-th call of a method, once it has arrived.
func (s *fakeServer) await(t *testing.T, method string, n int) fakeCall {
	t.Helper()
	for {
		s.mu.Lock()
		arrived := s.arrived
		s.mu.Unlock()
		if calls := s.called(method); len(calls) >= n {
			return calls[n-1]
		}
		select {
		case <-arrived:
		case <-t.Context().Done():
			t.Fatalf("%s was not called %d times", method, n)
		}
	}
}

func (c *fakeConn) HandleNotification(_ context.Context, method string, params []byte) error {
	c.server.record(c, method, params)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.ready = c.ready || method == protocol.NotifyInitialized
	return nil
}

func (c *fakeConn) HandleRequest(_ context.Context, req *rpc.Request) {
	c.server.record(c, req.Method, req.Params)
	if c.server.answer != nil && c.server.answer(c, req) {
		return
	}
	result, err := c.serve(req.Method, req.Params)
	req.ReplyInline(result, err)
}

// decode reads parameters; a fault in them is one of the test.
func decode[P any](params []byte) P {
	var out P
	if err := wire.Unmarshal(params, &out); err != nil {
		panic(err)
	}
	return out
}

func (c *fakeConn) serve(method string, params []byte) (any, error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == protocol.MethodInitialize {
		return c.initialize(decode[protocol.InitializeParams](params))
	}
	if !c.ready {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "not initialized")
	}
	switch method {
	case protocol.MethodProcessStart:
		return c.start(decode[protocol.StartParams](params), string(params))
	case protocol.MethodProcessRead:
		p := decode[protocol.ReadParams](params)
		return c.session.read(&p)
	case protocol.MethodProcessWrite:
		p := decode[protocol.WriteParams](params)
		return c.session.write(&p)
	case protocol.MethodProcessTerminate:
		p := decode[protocol.TerminateParams](params)
		proc := c.session.processes[p.ProcessID]
		return protocol.TerminateResult{Running: proc != nil && !proc.exited}, nil
	case protocol.MethodProcessSignal, protocol.MethodProcessResize, protocol.MethodFsWatch, protocol.MethodFsUnwatch:
		return protocol.Empty{}, nil
	case protocol.MethodProcessCloseStdin:
		return protocol.WriteResult{Status: protocol.WriteAccepted}, nil
	}
	return nil, protocol.Errorf(protocol.CodeMethodNotFound, "no %s", method)
}

func (c *fakeConn) initialize(p protocol.InitializeParams) (any, error) {
	s := c.server
	if p.ResumeSessionID == nil {
		c.session = &fakeSession{id: fmt.Sprintf("session-%d", c.number), processes: make(map[string]*fakeProcess)}
		s.sessions[c.session.id] = c.session
	} else {
		sess := s.sessions[*p.ResumeSessionID]
		if sess == nil {
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "unknown session id %s", *p.ResumeSessionID)
		}
		if sess.attached != nil {
			return nil, protocol.Errorf(protocol.CodeSessionAttached, "session %s is already attached to another connection", sess.id)
		}
		c.session = sess
	}
	c.session.attached = c
	caps := make(map[string]bool)
	for _, name := range s.caps {
		caps[name] = true
	}
	return protocol.InitializeResult{SessionID: c.session.id, EnvironmentInfo: protocol.EnvironmentInfo{
		Shell: protocol.Shell{Name: "sh", Path: "/bin/sh"}, Cwd: "file:///srv", Capabilities: caps,
	}}, nil
}

// fakeProcess is a process of a fake server. Its methods are for the test.
type fakeProcess struct {
	server  *fakeServer
	session *fakeSession
	id      string
	request string

	lastSeq  uint64
	chunks   []protocol.OutputChunk
	exited   bool
	exitCode int
	denied   bool
	closed   bool
	stdin    []byte
	writes   map[string]bool
}

func (c *fakeConn) start(p protocol.StartParams, request string) (any, error) {
	if old := c.session.processes[p.ProcessID]; old != nil {
		if old.request == request {
			return protocol.StartResult{ProcessID: p.ProcessID, SandboxType: protocol.SandboxNone, Attached: true}, nil
		}
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "process %s already exists", p.ProcessID)
	}
	if len(p.Argv) == 0 {
		return nil, &protocol.Error{
			Code: protocol.CodeInternal, Message: "No such file or directory (os error 2)",
			Data: protocol.SpawnErrorData{Kind: protocol.KindSpawnNotFound},
		}
	}
	c.session.processes[p.ProcessID] = &fakeProcess{
		server: c.server, session: c.session, id: p.ProcessID, request: request, writes: make(map[string]bool),
	}
	return protocol.StartResult{ProcessID: p.ProcessID, SandboxType: protocol.SandboxNone}, nil
}

func (s *fakeSession) read(p *protocol.ReadParams) (any, error) {
	proc := s.processes[p.ProcessID]
	if proc == nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "unknown process id %s", p.ProcessID)
	}
	result := protocol.ReadResult{
		NextSeq: proc.lastSeq + 1, Exited: proc.exited, Closed: proc.closed, SandboxDenied: proc.denied,
	}
	if proc.exited {
		result.ExitCode = &proc.exitCode
	}
	for _, chunk := range proc.chunks {
		if p.AfterSeq == nil || chunk.Seq > *p.AfterSeq {
			result.Chunks = append(result.Chunks, chunk)
		}
	}
	return result, nil
}

func (s *fakeSession) write(p *protocol.WriteParams) (any, error) {
	proc := s.processes[p.ProcessID]
	if proc == nil {
		return protocol.WriteResult{Status: protocol.WriteUnknownProcess}, nil
	}
	if !proc.writes[*p.WriteID] {
		proc.writes[*p.WriteID] = true
		proc.stdin = append(proc.stdin, p.Chunk...)
	}
	return protocol.WriteResult{Status: protocol.WriteAccepted}, nil
}

// process returns a process that was started.
func (s *fakeServer) process(t *testing.T, p *Process) *fakeProcess {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.sessions {
		if proc := sess.processes[p.ID()]; proc != nil {
			return proc
		}
	}
	t.Fatalf("process %s is not at the server", p.ID())
	return nil
}

// note is an event that was given a number and recorded, but not yet sent.
type note struct {
	method string
	params any
	to     *fakeProcess
}

// print records output.
func (p *fakeProcess) print(stream, text string) note {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.lastSeq++
	p.chunks = append(p.chunks, protocol.OutputChunk{Seq: p.lastSeq, Stream: stream, Chunk: []byte(text)})
	if p.server.window > 0 {
		kept := 0
		for i := len(p.chunks) - 1; i >= 0; i-- {
			if kept += len(p.chunks[i].Chunk); kept > p.server.window {
				p.chunks = slices.Clone(p.chunks[i+1:])
				break
			}
		}
	}
	return note{protocol.NotifyProcessOutput, protocol.OutputParams{ProcessID: p.id, Seq: p.lastSeq, Stream: stream, Chunk: []byte(text)}, p}
}

// exit records an exit.
func (p *fakeProcess) exit(code int) note {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.lastSeq++
	p.exited, p.exitCode = true, code
	return note{protocol.NotifyProcessExited, protocol.ExitedParams{ProcessID: p.id, Seq: p.lastSeq, ExitCode: code, SandboxDenied: p.denied}, p}
}

// end records the end of the output.
func (p *fakeProcess) end() note {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.lastSeq++
	p.closed = true
	return note{protocol.NotifyProcessClosed, protocol.ClosedParams{ProcessID: p.id, Seq: p.lastSeq}, p}
}

// send sends events to whoever is attached; those that nobody gets are recorded all
// the same.
func send(notes ...note) {
	for _, n := range notes {
		n.to.server.mu.Lock()
		conn := n.to.session.attached
		n.to.server.mu.Unlock()
		if conn != nil {
			_ = conn.peer.Notify(context.Background(), n.method, n.params)
		}
	}
}

// fakeExited is process/exited of an older server.
type fakeExited struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	ExitCode  int    `json:"exitCode"`
}

// older leaves out what an older server does not say.
func (n note) older() note {
	e := n.params.(protocol.ExitedParams)
	n.params = fakeExited{e.ProcessID, e.Seq, e.ExitCode}
	return n
}
