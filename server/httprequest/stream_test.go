package httprequest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/httprequest"
)

func streamed(url, id string) *protocol.HTTPRequestParams {
	return &protocol.HTTPRequestParams{Method: "GET", URL: url, RequestID: id, StreamResponse: true}
}

// flushed serves "first", then waits for a word from more or for the client to go,
// which it says on gone.
func flushed(t *testing.T) (url string, more chan string, gone chan struct{}) {
	return flushedTo(t, make(chan struct{}, 100))
}

// flushedTo is flushed that says on began when a request has come.
func flushedTo(t *testing.T, began chan<- struct{}) (url string, more chan string, gone chan struct{}) {
	t.Helper()
	more, gone = make(chan string), make(chan struct{}, 100)
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		_, _ = io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		select {
		case s := <-more:
			_, _ = io.WriteString(w, s)
		case <-r.Context().Done():
			gone <- struct{}{}
		}
	})
	return url, more, gone
}

func TestStream(t *testing.T) {
	url, more, _ := flushed(t)
	c := connect(t, httprequest.Config{})
	if got := c.must(streamed(url, "s")); got.Status != 200 || len(got.BodyBase64) != 0 {
		t.Errorf("result %+v, want an empty body", got)
	}
	if d := c.delta(); d.Seq != 1 || string(d.DeltaBase64) != "first" || d.Done {
		t.Errorf("first delta %+v", d)
	}
	more <- "second"
	if d := c.delta(); d.Seq != 2 || string(d.DeltaBase64) != "second" || d.Done || d.Error != nil {
		t.Errorf("second delta %+v", d)
	}
	if d := c.delta(); d.Seq != 3 || len(d.DeltaBase64) != 0 || !d.Done || d.Error != nil {
		t.Errorf("last delta %+v", d)
	}
}

func TestStreamEmptyBody(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := connect(t, httprequest.Config{})
	c.must(streamed(url, "s"))
	if d := c.delta(); d.Seq != 1 || !d.Done {
		t.Errorf("delta %+v", d)
	}
}

func TestStreamWhole(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(want) })
	c := connect(t, httprequest.Config{})
	c.must(streamed(url, "s"))
	if got, failure := c.stream("s"); !bytes.Equal(got, want) || failure != nil {
		t.Errorf("%d bytes, %v, want %d", len(got), failure, len(want))
	}
}

func TestStreamIDActive(t *testing.T) {
	url, more, _ := flushed(t)
	quick := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	c := connect(t, httprequest.Config{})
	c.must(streamed(url, "dup"))
	c.delta()
	if msg := c.refused(streamed(quick, "dup"), protocol.CodeInvalidParams); msg != "http/request streamResponse requestId `dup` is already active" {
		t.Errorf("message %q", msg)
	}
	p := get(quick) // only streams need an id of their own
	p.RequestID = "dup"
	c.must(p)
	more <- ""
	if d := c.delta(); !d.Done {
		t.Errorf("delta %+v", d)
	}
	c.must(streamed(quick, "dup")) // free with the last delta, at once
	c.stream("dup")
}

func TestStreamIDFreeWithTheLastDelta(t *testing.T) {
	quick := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	c := connect(t, httprequest.Config{})
	for range 100 {
		c.must(streamed(quick, "again"))
		c.stream("again")
	}
}

func TestNoDeltaAfterFailure(t *testing.T) {
	broken, _ := serveRaw(t, "no\r\n\r\n")
	quick := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := connect(t, httprequest.Config{})
	c.refused(streamed(broken, "s"), protocol.CodeInternal)
	c.must(streamed(quick, "s")) // the id is free
	if d := c.delta(); d.Seq != 1 || !d.Done {
		t.Errorf("delta %+v, want the second request's", d)
	}
}

func TestTimeoutCoversTheBody(t *testing.T) {
	began := make(chan struct{}, 100)
	url, _, gone := flushedTo(t, began)
	c := connect(t, httprequest.Config{})
	limit := uint64(150) // longer where it takes longer to get to the body
	for ; len(began) == 0; limit *= 2 {
		p := get(url)
		p.TimeoutMs = &limit
		if msg := c.refused(p, protocol.CodeInternal); !strings.HasSuffix(msg, "the request timed out") {
			t.Fatalf("message %q", msg)
		}
	}
	receive(t, gone)
	for body := ""; body == ""; limit *= 2 {
		p := streamed(url, "s")
		p.TimeoutMs = &limit
		if _, err := c.request(p); err != nil {
			if !strings.HasSuffix(err.Error(), "the request timed out") {
				t.Fatal(err)
			}
			continue
		}
		part, failure := c.stream("s")
		if body = string(part); failure == nil || *failure != "error decoding response body: the request timed out" || body != "first" && body != "" {
			t.Fatalf("stream %q %v", body, failure)
		}
	}
	receive(t, gone)
}

func TestTimeoutBeforeTheHead(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := connect(t, httprequest.Config{})
	for _, limit := range []uint64{0, 50} {
		p := get(url)
		p.TimeoutMs = &limit
		if msg := c.refused(p, protocol.CodeInternal); msg != "http/request failed: the request timed out" {
			t.Errorf("message %q", msg)
		}
	}
}

func TestTimeoutMayBeAnyNumber(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	limit := ^uint64(0)
	p := get(url)
	p.TimeoutMs = &limit
	connect(t, httprequest.Config{}).must(p)
}

// A client that does not read holds back the peer that sends.
func TestBackpressure(t *testing.T) {
	const total = 64 << 20
	var mu sync.Mutex
	sent := 0
	stalled := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 64<<10)
		control := http.NewResponseController(w)
		for range total / len(piece) {
			// A write that does not end within the deadline is one that is held back.
			_ = control.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := w.Write(piece)
			mu.Lock()
			sent += n
			mu.Unlock()
			if err != nil {
				close(stalled)
				return
			}
		}
	})
	hold := make(chan struct{})
	c := connectHeld(t, httprequest.Config{}, 0, hold)
	c.must(streamed(url, "s"))
	receive(t, stalled)
	mu.Lock()
	defer mu.Unlock()
	if sent >= total/2 {
		t.Errorf("%d bytes were sent to a client that reads none", sent)
	}
	close(hold)
	var got int
	for {
		d := c.delta()
		got += len(d.DeltaBase64)
		if d.Done {
			if d.Error == nil {
				t.Error("the cut body ended well")
			}
			break
		}
	}
	if got > sent || got == 0 {
		t.Errorf("%d bytes arrived of %d", got, sent)
	}
}

func TestCloseCancels(t *testing.T) {
	began := make(chan struct{}, 2)
	url, _, gone := flushedTo(t, began)
	c := connect(t, httprequest.Config{})
	c.must(streamed(url, "stream"))
	c.delta()
	receive(t, began)
	whole := make(chan error, 1)
	go func() {
		_, err := c.request(get(url))
		whole <- err
	}()
	receive(t, began)
	c.service.Close()
	if err := receive(t, whole); err == nil {
		t.Error("the request outlived its connection")
	}
	receive(t, gone)
	receive(t, gone)
	select {
	case d := <-c.deltas:
		t.Errorf("delta %+v after the end", d)
	default:
	}
	c.refused(get(url), protocol.CodeInternal)
}

func TestRequestLimit(t *testing.T) {
	url, more, _ := flushed(t)
	c := connect(t, httprequest.Config{})
	for i := range protocol.MaxHTTPRequests {
		c.must(streamed(url, fmt.Sprint(i)))
		c.delta()
	}
	if msg := c.refused(get(url), protocol.CodeInvalidRequest); !strings.Contains(msg, "at most 64 http/request calls") {
		t.Errorf("message %q", msg)
	}
	more <- ""
	if d := c.delta(); !d.Done {
		t.Fatalf("delta %+v", d)
	}
	c.must(streamed(url, "freed"))
}

// With one request at a time, one that waits for its peer holds nothing up.
func TestAsync(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	})
	c := connectHeld(t, httprequest.Config{}, 1, nil)
	slow := make(chan error, 1)
	go func() {
		_, err := c.request(get(url + "/slow"))
		slow <- err
	}()
	c.must(get(url))
	select {
	case err := <-slow:
		t.Fatalf("the slow request ended first: %v", err)
	default:
	}
	close(release)
	if err := receive(t, slow); err != nil {
		t.Error(err)
	}
}
