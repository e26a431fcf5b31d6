package relay

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// A Carrier carries frames over one socket, one frame a message. What its Read returns
// belongs to the caller.
type Carrier = rpc.Connection

// A Dialer makes a Carrier to the rendezvous at url. ctx bounds the making only.
type Dialer func(ctx context.Context, url string) (Carrier, error)

// DialConfig says how to connect to a rendezvous; the zero value works.
type DialConfig struct {
	// TLS is for wss; nil takes the system's roots.
	TLS *tls.Config
	// Header is added to the upgrade request.
	Header http.Header
	// RequestID sends X-Request-Id, "req_" and 32 hexadecimal digits, new for each
	// attempt, as an executor does.
	RequestID bool
	// NetDial replaces the way to the network, in tests.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger is told of each socket that is opened; nil is nobody.
	Logger *slog.Logger
}

// RejectionHeader says why a rendezvous refused an upgrade.
const RejectionHeader = "X-Codex-Rendezvous-Rejection-Reason"

// A RefusedError is an HTTP answer that refused the upgrade.
type RefusedError struct {
	Status int
	// Reason is what the rendezvous says of it, "" if nothing.
	Reason string
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("the relay refused the connection: %d %s", e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// writeBuffers are shared by all carriers, so that idle ones hold none. They take a full
// record in one piece.
var writeBuffers sync.Pool

const writeBuffer = 72 << 10

// NewDialer returns a Dialer that opens WebSockets.
func NewDialer(cfg DialConfig) Dialer {
	return func(ctx context.Context, target string) (Carrier, error) { return Dial(ctx, target, cfg) }
}

// Dial opens the WebSocket of noise-relay.md, section 10: binary messages of at most
// MaxFrame, neither subprotocol nor compression, pings. The URL is a credential and is part
// of no error.
func Dial(ctx context.Context, target string, cfg DialConfig) (Carrier, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ConnectTimeout,
		fmt.Errorf("the relay did not answer within %s: %w", ConnectTimeout, context.DeadlineExceeded))
	defer cancel()
	header := cfg.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	if cfg.RequestID {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		header.Set("X-Request-Id", "req_"+hex.EncodeToString(id[:]))
	}
	host := ""
	if u, err := url.Parse(target); err == nil {
		host = u.Hostname()
	}
	dialer := websocket.Dialer{
		TLSClientConfig: cfg.TLS,
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return cfg.dial(ctx, network, addr, host)
		},
		Proxy:           http.ProxyFromEnvironment,
		WriteBufferSize: writeBuffer, WriteBufferPool: &writeBuffers,
	}
	if cfg.NetDial != nil {
		dialer.Proxy = nil
	}
	began := time.Now()
	ws, resp, err := dialer.DialContext(ctx, target, header)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	switch {
	case err == nil:
		if cfg.Logger != nil {
			cfg.Logger.Debug("relay socket opened", "remote", ws.RemoteAddr().String(), "dur", time.Since(began))
		}
		return newCarrier(ws, true), nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, &RefusedError{Status: resp.StatusCode, Reason: Clip(resp.Header.Get(RejectionHeader))}
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if malformed, ok := errors.AsType[*url.Error](err); ok {
		err = malformed.Err // without the URL
	}
	return nil, fmt.Errorf("dial the relay: %w", err)
}

// addressCheck is the context key of CheckAddresses.
type addressCheck struct{}

// CheckAddresses returns a context with which Dial connects to addresses alone that check
// takes, whatever name leads there. A proxy's own address is not checked.
func CheckAddresses(ctx context.Context, check func(netip.Addr) error) context.Context {
	return context.WithValue(ctx, addressCheck{}, check)
}

// dial makes the connection below a WebSocket to host, or to a proxy on the way.
func (cfg *DialConfig) dial(ctx context.Context, network, addr, host string) (net.Conn, error) {
	way := cfg.NetDial
	if way == nil {
		d := new(net.Dialer)
		check, ok := ctx.Value(addressCheck{}).(func(netip.Addr) error)
		if name, _, err := net.SplitHostPort(addr); ok && err == nil && name == host {
			d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
				resolved, err := netip.ParseAddrPort(address)
				if err != nil {
					return err
				}
				return check(resolved.Addr())
			}
		}
		way = d.DialContext
	}
	conn, err := way(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return wsconn.Quiet(conn), nil
}

// NewWebSocketCarrier makes a Carrier of an established WebSocket, which it owns.
func NewWebSocketCarrier(ws *websocket.Conn) Carrier { return newCarrier(ws, false) }

// newCarrier is told whether this is known to be the client's end.
func newCarrier(ws *websocket.Conn, client bool) Carrier {
	return wsconn.New(ws, wsconn.Config{
		MaxMessageBytes: MaxFrame, PingInterval: PingInterval, PongTimeout: PongTimeout,
		WriteTimeout: WriteTimeout, Binary: true, Owned: true, Masked: client,
	})
}
