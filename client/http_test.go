package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

func TestHTTP(t *testing.T) {
	first := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Method", r.Method)
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(append(body, r.Header.Get("X-In")...))
		case "/big":
			for range 300 {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		case "/slow":
			_, _ = io.WriteString(w, "first ")
			w.(http.Flusher).Flush()
			<-first
			_, _ = io.WriteString(w, "second")
		case "/redirect":
			http.Redirect(w, r, "/echo", http.StatusFound)
		}
	}))
	defer web.Close()
	c := dial(t)
	do := func(req *client.HTTPRequest) *client.HTTPResponse {
		t.Helper()
		resp, err := c.Do(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}

	resp := do(&client.HTTPRequest{Method: "PUT", URL: web.URL + "/echo", Body: []byte("in "), Header: []protocol.HTTPHeader{{Name: "X-In", Value: "header"}}})
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "in header" || resp.Status != http.StatusTeapot {
		t.Errorf("%d %q, %v", resp.Status, body, err)
	}
	method := ""
	for _, h := range resp.Header {
		if h.Name == "x-method" {
			method = h.Value
		}
	}
	if method != "PUT" {
		t.Errorf("headers %v", resp.Header)
	}

	if n, err := io.Copy(io.Discard, do(&client.HTTPRequest{URL: web.URL + "/big"}).Body); err != nil || n != 300*64<<10 {
		t.Errorf("big body: %d, %v", n, err)
	}
	slow := do(&client.HTTPRequest{URL: web.URL + "/slow"})
	part := make([]byte, 6)
	if _, err := io.ReadFull(slow.Body, part); err != nil || string(part) != "first " {
		t.Errorf("%q, %v", part, err)
	}
	close(first)
	if rest, err := io.ReadAll(slow.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q, %v", rest, err)
	}
	if resp := do(&client.HTTPRequest{URL: web.URL + "/redirect", NoRedirects: true}); resp.Status != http.StatusFound {
		t.Errorf("status %d", resp.Status)
	}
	if _, err := c.Do(t.Context(), &client.HTTPRequest{URL: "ftp://127.0.0.1/"}); err == nil || !strings.Contains(err.Error(), "http") {
		t.Errorf("ftp: %v", err)
	}
}

// A body ends with its context, with Close and with its connection.
func TestHTTPBodyEnds(t *testing.T) {
	release := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-release
	}))
	defer web.Close()
	defer close(release)
	c := dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := c.Do(ctx, &client.HTTPRequest{URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, cancel) // while it reads
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	_ = resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed: %v", err)
	}
	resp, err = c.Do(t.Context(), &client.HTTPRequest{URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, client.ErrTransportClosed) {
		t.Errorf("connection: %v", err)
	}
}
