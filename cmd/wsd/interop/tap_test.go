//go:build interop

package interop

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// A tap stands between client and server and passes on what they say.
type tap struct {
	URL string

	target string

	mu     sync.Mutex
	log    []message
	pairs  map[*pair]bool
	filter func(*message) bool // may change the message; false drops it
	watch  []*watcher
	refuse int // upgrades to refuse
	held   chan struct{}
	begin  time.Time
	opened int
	wait   sync.WaitGroup
	header []http.Header
}

// A message passed the tap.
type message struct {
	At         time.Duration // since the tap began
	Connection int           // from 1
	FromServer bool
	Method     string // of the request, for a response too
	ID         string // "" for a notification
	Response   bool
	Raw        []byte
	Dropped    bool
}

// Params decodes the params, result or error of the message.
func (m *message) Params(t *testing.T, v any) {
	t.Helper()
	var all struct{ Params, Result, Error json.RawMessage }
	if err := json.Unmarshal(m.Raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, part := range []json.RawMessage{all.Params, all.Result, all.Error} {
		if part != nil {
			if err := json.Unmarshal(part, v); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

type pair struct {
	client, server *websocket.Conn
	number         int
	mu             sync.Mutex
	methods        map[string]string // of the requests that wait for their answer, by id
}

func (p *pair) close() {
	p.client.Close()
	p.server.Close()
}

type watcher struct {
	match func(*message) bool
	seen  chan message
}

// newTap passes on to the server at target, a ws:// URL, until the test ends.
func newTap(t *testing.T, target string) *tap {
	t.Helper()
	r := &tap{target: target, pairs: map[*pair]bool{}, begin: time.Now()}
	server := httptest.NewServer(r)
	r.URL = "ws" + strings.TrimPrefix(server.URL, "http")
	t.Cleanup(func() {
		r.Cut()
		server.Close()
		r.wait.Wait()
		if t.Failed() {
			r.print(t)
		}
	})
	return r
}

func (r *tap) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	refuse := r.refuse > 0
	if refuse {
		r.refuse--
	}
	r.header = append(r.header, req.Header.Clone())
	held := r.held
	r.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-req.Context().Done():
			return
		}
	}
	if refuse {
		http.Error(w, "try later", http.StatusServiceUnavailable)
		return
	}
	header := http.Header{}
	for _, name := range []string{"Authorization", "X-Request-Id"} {
		if v := req.Header.Values(name); v != nil {
			header[name] = v
		}
	}
	server, resp, err := websocket.DefaultDialer.DialContext(req.Context(), r.target, header)
	if err != nil {
		status := http.StatusBadGateway
		if resp != nil {
			resp.Body.Close()
			status = resp.StatusCode
		}
		http.Error(w, err.Error(), status)
		return
	}
	client, err := (&websocket.Upgrader{}).Upgrade(w, req, nil)
	if err != nil {
		server.Close()
		return
	}
	r.mu.Lock()
	r.opened++
	p := &pair{client: client, server: server, number: r.opened, methods: map[string]string{}}
	r.pairs[p] = true
	r.mu.Unlock()
	r.wait.Add(1)
	go func() { // ends with the pair, which Cut closes
		defer r.wait.Done()
		r.pump(p, server, client, true)
	}()
	r.pump(p, client, server, false)
}

// pump passes on in one direction until a side ends; then both are closed.
func (r *tap) pump(p *pair, from, to *websocket.Conn, fromServer bool) {
	defer func() {
		p.close()
		r.mu.Lock()
		delete(r.pairs, p)
		r.mu.Unlock()
	}()
	from.SetReadLimit(128 << 20)
	for {
		kind, raw, err := from.ReadMessage()
		if err != nil {
			return
		}
		m := p.classify(raw, fromServer)
		r.mu.Lock()
		m.At = time.Since(r.begin)
		if r.filter != nil && !r.filter(&m) {
			m.Dropped = true
		}
		r.log = append(r.log, m)
		for _, w := range r.watch {
			if w.match(&m) {
				select {
				case w.seen <- m:
				default:
				}
			}
		}
		r.mu.Unlock()
		if m.Dropped {
			continue
		}
		if err := to.WriteMessage(kind, m.Raw); err != nil {
			return
		}
	}
}

func (p *pair) classify(raw []byte, fromServer bool) message {
	var env struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(raw, &env)
	m := message{Connection: p.number, FromServer: fromServer, Method: env.Method, ID: string(env.ID), Raw: raw}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.Method == "":
		m.Response = true
		m.Method = p.methods[m.ID]
		delete(p.methods, m.ID)
	case m.ID != "" && !fromServer:
		p.methods[m.ID] = m.Method
	}
	return m
}

// Cut closes every connection, both sides, without goodbye.
func (r *tap) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.client.NetConn().Close()
		p.server.NetConn().Close()
	}
}

// Refuse has the next n upgrades refused with 503.
func (r *tap) Refuse(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = n
}

// Hold lets no upgrade through until release is called.
func (r *tap) Hold() (release func()) {
	held := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.held == held {
			r.held = nil
			close(held)
		}
	}
}

// Filter has f look at every message before it is passed on; it may change Raw, and
// drops the message by returning false. It must not block.
func (r *tap) Filter(f func(*message) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.filter = f
}

// Watch returns a channel on which the next messages that match arrive, and some
// may be lost if nobody takes them.
func (r *tap) Watch(match func(*message) bool) <-chan message {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &watcher{match, make(chan message, 16)}
	r.watch = append(r.watch, w)
	return w.seen
}

// Messages are those so far that match.
func (r *tap) Messages(match func(*message) bool) []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []message
	for _, m := range r.log {
		if match(&m) {
			found = append(found, m)
		}
	}
	return found
}

// Headers are those of the upgrades so far.
func (r *tap) Headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.header)
}

// requests matches the client's requests of a method.
func requests(method string) func(*message) bool {
	return func(m *message) bool { return !m.FromServer && m.Method == method && m.ID != "" }
}

// notices matches the server's notifications of a method.
func notices(method string) func(*message) bool {
	return func(m *message) bool { return m.FromServer && m.Method == method && m.ID == "" }
}

// answers matches the server's answers to a method.
func answers(method string) func(*message) bool {
	return func(m *message) bool { return m.FromServer && m.Method == method && m.Response }
}

func (r *tap) print(t *testing.T) {
	t.Helper()
	for _, m := range r.Messages(func(*message) bool { return true }) {
		arrow := ">"
		if m.FromServer {
			arrow = "<"
		}
		if m.Dropped {
			arrow += " (dropped)"
		}
		t.Logf("%7.3fs %d %s %.400s", m.At.Seconds(), m.Connection, arrow, m.Raw)
	}
}
