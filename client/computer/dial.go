package computer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

const (
	// DefaultConnectTimeout bounds one attempt to connect.
	DefaultConnectTimeout = 10 * time.Second
	// pingInterval is the time between pings, which keep proxies from closing a quiet
	// connection and notice a dead one.
	pingInterval = 30 * time.Second
	// maxRefusal bounds what is shown of an HTTP answer that refuses.
	maxRefusal = 512
)

// Options are what a Client may be told; nil and the zero value work.
type Options struct {
	// Secret is sent as "Authorization: Bearer". Outside of TLS it is sent to loopback
	// addresses and Unix sockets only.
	Secret string
	// TLSConfig is used for https and wss.
	TLSConfig *tls.Config
	// ConnectTimeout bounds Dial; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// Logger is told what the session hides from the peer. nil discards.
	Logger *slog.Logger
}

// A RefusedError is an HTTP answer to Dial that is no WebSocket.
type RefusedError struct {
	Status int
	Reason string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server refused: %d %s", e.Status, e.Reason)
}

// Dial connects to rawURL: http, https, ws or wss with a host, where /api and then /ws is
// tried unless a path is given, or unix:///PATH/OF/SOCKET.
func Dial(ctx context.Context, rawURL string, opts *Options) (*Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	d, err := newDialer(rawURL, opts)
	if err != nil {
		return nil, err
	}
	timeout := opts.ConnectTimeout
	if timeout == 0 {
		timeout = DefaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for i, target := range d.targets {
		ws, err := d.dial(ctx, target)
		if r, refused := errors.AsType[*RefusedError](err); refused && elsewhere(r.Status) && i < len(d.targets)-1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return New(wire.NewTransport(ws, pingInterval), opts.Logger), nil
	}
	return nil, errors.New("dial: no address") // there is always one
}

// elsewhere reports whether a refusal says that there is no WebSocket at an address. The
// first computers have one at /ws only, and answer variously at /api.
func elsewhere(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return false
	}
	return true
}

type dialer struct {
	websocket.Dialer
	targets []string
	header  http.Header
}

func newDialer(rawURL string, opts *Options) (*dialer, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("parse URL: %w", err)
	}
	d := &dialer{header: http.Header{}}
	d.TLSClientConfig, d.Proxy = opts.TLSConfig, http.ProxyFromEnvironment
	local := isLoopback(u.Hostname())
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme, local = "wss", true
	case "unix":
		if u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("URL %q names no socket; write unix:///PATH", rawURL)
		}
		path := u.Path
		u, local = &url.URL{Scheme: "ws", Host: "localhost"}, true
		d.Proxy = nil
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	default:
		return nil, fmt.Errorf("unsupported URL %q; write http://HOST:PORT, https://HOST:PORT or unix:///PATH", u.Redacted())
	}
	if u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("URL %q is not that of a server; write http://HOST:PORT", u.Redacted())
	}
	if opts.Secret != "" {
		if !local {
			return nil, fmt.Errorf("a secret is not sent to %s without TLS; use https://", u.Host)
		}
		d.header.Set("Authorization", "Bearer "+opts.Secret)
	}
	if strings.Trim(u.Path, "/") != "" {
		d.targets = []string{u.String()}
		return d, nil
	}
	for _, path := range []string{"/api", "/ws"} {
		u.Path = path
		d.targets = append(d.targets, u.String())
	}
	return d, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (d *dialer) dial(ctx context.Context, target string) (*websocket.Conn, error) {
	ws, resp, err := d.DialContext(ctx, target, d.header)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	if err == nil {
		return ws, nil
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		reason, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what there is of it
		return nil, &RefusedError{resp.StatusCode, strings.TrimSpace(string(reason))}
	}
	return nil, fmt.Errorf("dial: %w", err)
}

// New makes a Client of a connection, which it owns from then on.
func New(conn capnweb.Transport, logger *slog.Logger) *Client {
	return &Client{capnweb.New(conn, capnweb.Config{MapError: ownError, Logger: logger})}
}
