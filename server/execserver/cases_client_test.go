package execserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

// A client is a minimal raw client over a real WebSocket. It checks every message
// against the rules that hold in every case, and at the end of the test that each
// request was answered and that process/read tells of each process what the
// notifications told.
type client struct {
	t    *testing.T
	link *webSocketLink

	mu      sync.Mutex
	rules   *ledger
	replies map[string]*frame // by id, as JSON
	faults  []*frame          // answers with id -1 that nobody asked for
	asked   map[string]string // method, by id, of what has no answer yet
	lastID  int
	fault   error // the rule that was broken
	ended   error // why reading ended
	changed chan struct{}
	pass    chan struct{} // what reading waits for, when paused
	dropped bool          // the connection is meant to have ended
	quiet   bool          // the processes are not looked at in the end
	done    chan struct{} // closed when reading has ended
}

// object is JSON to be sent.
type object = map[string]any

// serve serves a new server on loopback and returns its URL.
func serve(t *testing.T, change ...func(*execserver.Config)) string {
	t.Helper()
	if target := os.Getenv(targetVariable); target != "" {
		return target // which fails some of the cases, as they say
	}
	endpoint, err := listenServer(t, change...)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint.URL()
}

func listenServer(t *testing.T, change ...func(*execserver.Config)) (*server.Endpoint, error) {
	srv := newServer(t, change...)
	endpoint, err := srv.Listen(server.EndpointConfig{})
	if err == nil {
		run(t, srv, endpoint)
	}
	return endpoint, err
}

// dial connects and initializes.
func dial(t *testing.T, url string) *client {
	t.Helper()
	c := newClient(t, dialWebSocket(t, url))
	c.must("initialize", object{"clientName": "cases"}, nil)
	c.sendRaw(`{"method":"initialized","params":{}}`)
	return c
}

// newClient makes a client that has not initialized.
func newClient(t *testing.T, l *webSocketLink) *client {
	c := &client{
		t: t, link: l, rules: newLedger(), replies: make(map[string]*frame), asked: make(map[string]string),
		changed: make(chan struct{}), done: make(chan struct{}),
	}
	go c.read() // finish waits for it
	t.Cleanup(c.finish)
	return c
}

func (c *client) read() {
	defer close(c.done)
	for {
		c.mu.Lock()
		pass := c.pass
		c.mu.Unlock()
		if pass != nil {
			<-pass
		}
		raw, err := c.link.read()
		c.mu.Lock()
		if err == nil {
			err = c.take(raw)
		}
		if err != nil {
			c.ended = err
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take sorts a message. c.mu is held.
func (c *client) take(raw []byte) error {
	f, err := parseFrame(raw)
	if err == nil {
		err = c.rules.note(f)
	}
	if err != nil {
		c.fault = err
		return err
	}
	if f.ID == nil {
		return nil
	}
	id := string(f.ID)
	if _, ok := c.asked[id]; !ok && id == "-1" {
		c.faults = append(c.faults, f)
		return nil
	}
	if c.replies[id] != nil {
		c.fault = fmt.Errorf("a second answer to %s: %s", id, raw)
		return c.fault
	}
	delete(c.asked, id)
	c.replies[id] = f
	return nil
}

// until waits until ok, which is called with c.mu held, is true.
func (c *client) until(what string, ok func() bool) {
	c.t.Helper()
	if err := c.wait(patience, ok); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *client) wait(limit time.Duration, ok func() bool) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		met, changed, ended, fault := ok(), c.changed, c.ended, c.fault
		c.mu.Unlock()
		switch {
		case fault != nil:
			return fault
		case met:
			return nil
		case ended != nil:
			return fmt.Errorf("the connection ended: %w", ended)
		}
		select {
		case <-changed:
		case <-timeout.C:
			return errPatience
		}
	}
}

// sendRaw sends text as it is.
func (c *client) sendRaw(text string) {
	c.t.Helper()
	if err := c.link.write([]byte(text)); err != nil {
		c.t.Errorf("send: %v", err)
	}
}

// send sends a request and returns its id.
func (c *client) send(method string, params any) string {
	c.t.Helper()
	c.mu.Lock()
	c.lastID++
	id := strconv.Itoa(c.lastID)
	c.asked[id] = method
	c.mu.Unlock()
	text, err := json.Marshal(object{"id": json.Number(id), "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(string(text))
	return id
}

// await returns the answer to the request with that id, which is JSON.
func (c *client) await(id string) *frame {
	c.t.Helper()
	var f *frame
	c.until("the answer to "+id, func() bool { f = c.replies[id]; return f != nil })
	return f
}

// awaitWithin is await, in less time.
func (c *client) awaitWithin(limit time.Duration, id string) *frame {
	c.t.Helper()
	var f *frame
	if err := c.wait(limit, func() bool { f = c.replies[id]; return f != nil }); err != nil {
		c.t.Fatalf("the answer to %s within %v: %v", id, limit, err)
	}
	return f
}

func (c *client) call(method string, params any) *frame {
	c.t.Helper()
	return c.await(c.send(method, params))
}

// must calls, fails the test at an error, and decodes the result unless into is nil.
func (c *client) must(method string, params, into any) {
	c.t.Helper()
	f := c.call(method, params)
	if f.Error != nil {
		c.t.Fatalf("%s: %v", method, f.Error)
	}
	if into == nil {
		return
	}
	if err := f.decode(into); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// decode decodes the result of an answer.
func (f *frame) decode(into any) error {
	if result, ok := into.(*readResult); ok {
		return f.decodeRead(result)
	}
	if len(f.long) == 0 {
		return json.Unmarshal(f.Result, into)
	}
	var whole struct{ Result json.RawMessage }
	if err := json.Unmarshal(f.raw, &whole); err != nil {
		return err
	}
	return json.Unmarshal(whole.Result, into)
}

func (f *frame) decodeRead(result *readResult) error {
	var wire struct {
		readState
		Chunks []wireChunk
	}
	if err := json.Unmarshal(f.Result, &wire); err != nil {
		return err
	}
	*result = readResult{readState: wire.readState}
	for _, c := range wire.Chunks {
		plain, err := f.chunk(c)
		if err != nil {
			return err
		}
		result.Chunks = append(result.Chunks, plain)
	}
	return nil
}

// refused calls and returns the error that there must be, with one of the codes if any
// are given.
func (c *client) refused(method string, params any, codes ...int) *frameError {
	c.t.Helper()
	return c.mustRefuse(c.call(method, params), method, codes...)
}

func (c *client) mustRefuse(f *frame, what string, codes ...int) *frameError {
	c.t.Helper()
	if f.Error == nil {
		c.t.Fatalf("%s succeeded: %.300s", what, f.raw)
	}
	for _, code := range codes {
		if f.Error.Code == code {
			return f.Error
		}
	}
	if len(codes) > 0 {
		c.t.Errorf("%s: %v, want code %v", what, f.Error, codes)
	}
	return f.Error
}

// startParams are those of a process, with changes.
func startParams(id, cwd string, argv []string, with object) object {
	p := object{
		"processId": id, "argv": argv, "cwd": cwd, "env": object{"PATH": testPath},
		"tty": false, "pipeStdin": false, "arg0": nil,
	}
	for name, value := range with {
		p[name] = value
	}
	return p
}

// testPath is a PATH under which the usual programs are found.
const testPath = "/usr/local/bin:/usr/bin:/bin"

// start starts a process in the directory dir.
func (c *client) start(id, dir string, argv []string, with object) {
	c.t.Helper()
	c.must("process/start", startParams(id, fileURI(dir), argv, with), nil)
}

// run starts a process and waits for its close.
func (c *client) run(id, dir string, argv []string, with object) *heard {
	c.t.Helper()
	c.start(id, dir, argv, with)
	return c.closed(id)
}

// closed waits for the close of a process and returns what was heard of it.
func (c *client) closed(id string) *heard {
	c.t.Helper()
	return c.process("the close of "+id, id, func(h *heard) bool { return h.closed })
}

func (c *client) exited(id string) *heard {
	c.t.Helper()
	return c.process("the exit of "+id, id, func(h *heard) bool { return h.exited > 0 })
}

// printed waits until a process has printed text.
func (c *client) printed(id, text string) {
	c.t.Helper()
	c.process(fmt.Sprintf("output %q of %s", text, id), id, func(h *heard) bool { return bytes.Contains(h.output(""), []byte(text)) })
}

func (c *client) process(what, id string, ok func(h *heard) bool) *heard {
	c.t.Helper()
	var found heard
	c.until(what, func() bool {
		h := c.rules.processes[id]
		if h == nil || !ok(h) {
			return false
		}
		found = *h
		return true
	})
	return &found
}

// heardOf is what was heard of a process so far, nil for nothing.
func (c *client) heardOf(id string) *heard {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.rules.processes[id]
	if h == nil {
		return nil
	}
	found := *h
	return &found
}

// writeStdin writes to a process and returns the status.
func (c *client) writeStdin(id string, data []byte) string {
	c.t.Helper()
	var result struct{ Status string }
	c.must("process/write", c.writeParams(id, data), &result)
	return result.Status
}

func (c *client) writeParams(id string, data []byte) object {
	c.mu.Lock()
	n := c.lastID
	c.mu.Unlock()
	return object{"processId": id, "chunk": base64.StdEncoding.EncodeToString(data), "writeId": "w" + strconv.Itoa(n)}
}

// readResult is the answer to process/read.
type readResult struct {
	readState
	Chunks []chunk
}

// readState is the answer to process/read but for the output.
type readState struct {
	NextSeq       uint64
	Exited        bool
	ExitCode      *int
	Closed        bool
	Failure       *string
	SandboxDenied bool
}

// readAll reads all that is kept of a process.
func (c *client) readAll(id string) ([]chunk, readResult) {
	c.t.Helper()
	var chunks []chunk
	var last uint64
	for {
		var result readResult
		c.must("process/read", object{"processId": id, "afterSeq": last, "waitMs": 0}, &result)
		if len(result.Chunks) == 0 {
			return chunks, result
		}
		chunks = append(chunks, result.Chunks...)
		last = result.Chunks[len(result.Chunks)-1].Seq
	}
}

// terminate returns whether the process was running.
func (c *client) terminate(id string) bool {
	c.t.Helper()
	var result struct{ Running bool }
	c.must("process/terminate", object{"processId": id}, &result)
	return result.Running
}

// alive checks that the connection answers quickly and that others can be made.
func (c *client) alive(url string) {
	c.t.Helper()
	c.awaitWithin(time.Second*slack, c.send("fs/getMetadata", object{"path": "file:///"}))
	other := dial(c.t, url)
	other.drop()
}

// slack is by how much the times of the cases are stretched, because the race detector,
// the other cases and other packages' tests run beside.
const slack = 15

// drop closes the connection without a word.
func (c *client) drop() {
	c.mu.Lock()
	c.dropped = true
	c.mu.Unlock()
	c.link.close()
	<-c.done
}

// closedByServer waits for the server to close the connection.
func (c *client) closedByServer() error {
	c.t.Helper()
	c.until("the end of the connection", func() bool { return c.ended != nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped = true
	return c.ended
}

// pause stops the reading of the connection until resume.
func (c *client) pause() (resume func()) {
	pass := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass = pass
	return sync.OnceFunc(func() {
		c.mu.Lock()
		c.pass = nil
		c.mu.Unlock()
		close(pass)
	})
}

// finish checks the rules that can be checked at the end only, and closes.
func (c *client) finish() {
	defer func() {
		c.link.close()
		<-c.done
	}()
	c.mu.Lock()
	dropped, fault := c.dropped, c.fault
	c.mu.Unlock()
	if fault != nil {
		c.t.Errorf("a rule that holds in every case is broken: %v", fault)
	}
	if dropped || fault != nil || c.t.Failed() {
		return
	}
	if !c.quiet {
		c.sameStory()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		c.t.Errorf("the connection ended: %v", c.ended)
	}
	for id, method := range c.asked {
		c.t.Errorf("no answer to %s with id %s", method, id)
	}
}

// sameStory compares what process/read tells with the notifications.
func (c *client) sameStory() {
	c.mu.Lock()
	var closed []string
	for id, h := range c.rules.processes {
		if h.closed {
			closed = append(closed, id)
		}
	}
	c.mu.Unlock()
	for _, id := range closed {
		h := c.heardOf(id)
		chunks, state := c.readAll(id)
		tail := h.chunks[max(0, len(h.chunks)-len(chunks)):]
		if h.bytes <= 1<<20 && len(h.chunks) <= 50_000 {
			tail = h.chunks
		}
		if len(tail) != len(chunks) {
			c.t.Errorf("process/read of %s has %d chunks, the notifications %d", id, len(chunks), len(tail))
			continue
		}
		for i, got := range chunks {
			if want := tail[i]; got.Seq != want.Seq || got.Stream != want.Stream || !bytes.Equal(got.Chunk, want.Chunk) {
				c.t.Errorf("process/read of %s differs from the notifications at seq %d", id, want.Seq)
				break
			}
		}
		if !state.Exited || !state.Closed || state.ExitCode == nil || *state.ExitCode != h.exitCode ||
			state.SandboxDenied != h.denied || state.NextSeq != h.closeSeq+1 || state.Failure != nil {
			c.t.Errorf("process/read of %s says %+v, the notifications %d, %v, close %d", id, state, h.exitCode, h.denied, h.closeSeq)
		}
	}
}

// fileURI is the URI of a path of plain characters.
func fileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// sh is an argv that runs a script.
func sh(script string) []string { return []string{"sh", "-c", script} }

// eventually waits for something that nobody tells of.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("%s: %v", what, errPatience)
		}
	}
}

// mustFile does fileCommand.
func mustFile(t *testing.T, dir string, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if err := fileCommand(dir, command); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

// mustContain checks that an error says what it is about.
func mustContain(t *testing.T, err *frameError, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Message, word) {
			t.Errorf("the error %q does not name %q", err.Message, word)
		}
	}
}
