package httprequest_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server/httprequest"
)

// patience is how long a test waits for something that should be at hand.
const patience = 60 * time.Second

// client is the far end of a connection that serves http/request.
type client struct {
	t       *testing.T
	peer    *rpc.Peer
	service *httprequest.Service
	deltas  chan protocol.HTTPBodyDeltaParams
	hold    chan struct{} // while set and open, notifications are not read
}

type requests struct{ *rpc.Dispatcher }

func (requests) HandleNotification(context.Context, string, []byte) error { return nil }

type deltaReader struct{ c *client }

func (deltaReader) HandleRequest(_ context.Context, req *rpc.Request) {
	req.ReplyInline(nil, errors.New("no requests here"))
}

func (r deltaReader) HandleNotification(_ context.Context, method string, params []byte) error {
	if r.c.hold != nil {
		<-r.c.hold
	}
	var d protocol.HTTPBodyDeltaParams
	if err := wire.Unmarshal(params, &d); err != nil || method != protocol.NotifyHTTPBodyDelta {
		r.c.t.Errorf("notification %s %s: %v", method, params, err)
	}
	r.c.deltas <- d
	return nil
}

// connect serves http/request on one end of a Pair and returns the other end.
func connect(t *testing.T, cfg httprequest.Config) *client {
	return connectHeld(t, cfg, 0, nil)
}

// connectHeld is connect with a client that reads no notification before hold is
// closed, and a server that runs concurrency requests at a time.
func connectHeld(t *testing.T, cfg httprequest.Config, concurrency int, hold chan struct{}) *client {
	t.Helper()
	table := rpc.NewTable()
	httprequest.Register(table)
	a, b := rpc.Pair()
	c := &client{t: t, deltas: make(chan protocol.HTTPBodyDeltaParams, 4096), hold: hold}
	scope := table.NewScope()
	dispatcher := rpc.NewDispatcher(scope, rpc.DispatcherConfig{Concurrency: concurrency})
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: requests{dispatcher}})
	c.service = httprequest.NewService(server, cfg)
	scope.Bind(c.service)
	c.peer = rpc.NewPeer(b, rpc.PeerConfig{Handler: deltaReader{c}})
	var served sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for _, p := range []*rpc.Peer{server, c.peer} {
		served.Go(func() { _ = p.Serve(ctx) })
	}
	t.Cleanup(func() {
		if c.hold != nil {
			select {
			case <-c.hold:
			default:
				close(c.hold)
			}
		}
		c.peer.Close()
		server.Close()
		cancel()
		c.service.Close()
		dispatcher.Wait()
		served.Wait()
	})
	return c
}

// get is the least that makes a request.
func get(url string) *protocol.HTTPRequestParams {
	return &protocol.HTTPRequestParams{Method: "GET", URL: url, RequestID: "r"}
}

func (c *client) request(p *protocol.HTTPRequestParams) (protocol.HTTPResponse, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var out protocol.HTTPResponse
	err := c.peer.Call(ctx, protocol.MethodHTTPRequest, p, &out)
	return out, err
}

func (c *client) must(p *protocol.HTTPRequestParams) protocol.HTTPResponse {
	c.t.Helper()
	out, err := c.request(p)
	if err != nil {
		c.t.Fatalf("http/request %s %s: %v", p.Method, p.URL, err)
	}
	return out
}

// refused expects code and returns the message.
func (c *client) refused(p *protocol.HTTPRequestParams, code protocol.Code) string {
	c.t.Helper()
	out, err := c.request(p)
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok || failure.Code != code {
		c.t.Fatalf("http/request %s %s: %+v, %v, want code %d", p.Method, p.URL, out, err, code)
	}
	return failure.Message
}

func (c *client) delta() protocol.HTTPBodyDeltaParams {
	c.t.Helper()
	return receive(c.t, c.deltas)
}

// stream reads the deltas of one stream to the last and returns what they carry.
func (c *client) stream(id string) (body []byte, failure *string) {
	c.t.Helper()
	for seq := uint64(1); ; seq++ {
		d := c.delta()
		if d.RequestID != id || d.Seq != seq {
			c.t.Fatalf("delta %q %d, want %q %d", d.RequestID, d.Seq, id, seq)
		}
		body = append(body, d.DeltaBase64...)
		if d.Done {
			if len(d.DeltaBase64) != 0 {
				c.t.Errorf("the last delta carries %d bytes", len(d.DeltaBase64))
			}
			return body, d.Error
		}
		if d.Error != nil || len(d.DeltaBase64) == 0 {
			c.t.Fatalf("delta %+v before the last", d)
		}
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// serveRaw answers every connection's first request with raw bytes and hangs up.
// The requests come out of the channel as they were written.
func serveRaw(t *testing.T, answer string) (string, <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			answerRaw(conn, answer, seen)
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return "http://" + listener.Addr().String(), seen
}

func answerRaw(conn net.Conn, answer string, seen chan<- string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	var head string
	for {
		line, err := in.ReadString('\n')
		head += line
		if err != nil || line == "\r\n" {
			break
		}
	}
	seen <- head
	_, _ = conn.Write([]byte(answer))
}
