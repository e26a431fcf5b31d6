package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

const (
	// maxAnswerBytes bounds one message from the server. It is larger than what a
	// server takes, since the original answers fs/readFile in one message.
	maxAnswerBytes = 1 << 30
	// clientPing is the time between a client's pings, which keep proxies from closing
	// a quiet connection and notice a dead one.
	clientPing = 30 * time.Second
	// writeBuffer is the size of the pieces that a message is written in. They are
	// frames of their own.
	writeBuffer = 128 << 10
	// maxRefusal bounds what is shown of an HTTP answer that refuses.
	maxRefusal = 512
)

// writeBuffers are shared, so that idle connections hold none.
var writeBuffers sync.Pool

// webSocket is the Transport of ws, wss and unix URLs.
type webSocket struct {
	kind    string
	target  string
	headers http.Header
	dialer  websocket.Dialer
}

// NewTransport makes the Transport that Dial uses for rawURL: ws://HOST:PORT,
// wss://HOST:PORT, unix:///PATH/OF/SOCKET, or a RelayURL.
func NewTransport(rawURL string, opts *Options) (Transport, error) {
	if IsRelayURL(rawURL) {
		return NewRelayTransport(rawURL, opts)
	}
	o := opts.withDefaults()
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("parse URL: %w", err)
	}
	t := &webSocket{kind: u.Scheme, target: rawURL, headers: make(http.Header)}
	t.dialer = websocket.Dialer{
		TLSClientConfig: o.TLSConfig, Proxy: http.ProxyFromEnvironment,
		WriteBufferSize: writeBuffer, WriteBufferPool: &writeBuffers,
	}
	switch u.Scheme {
	case "ws", "wss":
		if u.Host == "" {
			return nil, fmt.Errorf("URL %q names no host; write ws://HOST:PORT", u.Redacted())
		}
		if u.Scheme == "ws" && o.BearerToken != "" && !isLoopback(u.Hostname()) {
			return nil, fmt.Errorf("a token is not sent to %s without TLS; use wss://", u.Host)
		}
	case "unix":
		if u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("URL %q names no socket; write unix:///PATH", rawURL)
		}
		path := u.Path
		t.target = "ws://localhost/"
		t.dialer.Proxy = nil
		t.dialer.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	default:
		return nil, fmt.Errorf("unsupported URL %q; write ws://HOST:PORT, wss://HOST:PORT, unix:///PATH or relay://HOST/ENVIRONMENT", rawURL)
	}
	if o.BearerToken != "" {
		t.headers.Set("Authorization", "Bearer "+o.BearerToken)
	}
	if o.RequestID != "" {
		t.headers.Set("x-request-id", o.RequestID)
	}
	return t, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (t *webSocket) Kind() string  { return t.kind }
func (t *webSocket) Resumes() bool { return true }

func (t *webSocket) Connect(ctx context.Context) (rpc.Connection, error) {
	ws, resp, err := t.dialer.DialContext(ctx, t.target, t.headers)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it
			return nil, &RefusedError{Status: resp.StatusCode, Reason: strings.TrimSpace(string(reason))}
		}
		return nil, fmt.Errorf("dial: %w", err)
	}
	return wsconn.New(ws, wsconn.Config{MaxMessageBytes: maxAnswerBytes, PingInterval: clientPing, Masked: true}), nil
}
