package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
)

// A door says which requests come in at an endpoint that asks for no authentication. The
// nil door lets everybody in.
type door struct {
	// sameUser lets in processes of this server's user and of root.
	sameUser bool
	// hosts are names that a Host header may have besides addresses and localhost.
	hosts []string
}

// strangerError refuses a request of another user. Its text is the body of a 403.
type strangerError struct{ why string }

func (e *strangerError) Error() string {
	return "forbidden: this server is for processes of its own user and root only, and " + e.why +
		"; start it with a token (--ws-auth capability-token), on a Unix socket (--listen unix:///PATH) or with --any-local-user; " +
		"a reverse proxy that runs as another user needs the token"
}

// newDoor returns the door of an endpoint on a loopback port; nil if it asks for
// authentication itself.
func newDoor(u listenURL, cfg EndpointConfig) *door {
	if u.scheme == schemeUnix || cfg.HTTP.Authorize != nil || cfg.TLS.ClientCA != "" {
		return nil
	}
	return &door{sameUser: knowsPeers && !cfg.AnyLocalUser, hosts: cfg.AllowedHosts}
}

// peer is the other end of a TCP connection.
type peer struct {
	conn net.Conn
	once sync.Once
	err  error // why it may not come in
}

type peerKey struct{}

// remember is the ConnContext of an http.Server.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{conn: c})
}

// admit returns a *strangerError for a request of another user's process. It looks once
// for each connection.
func (d *door) admit(r *http.Request) error {
	if d == nil || !d.sameUser {
		return nil
	}
	p, ok := r.Context().Value(peerKey{}).(*peer)
	if !ok {
		return &strangerError{"this request came by no connection"}
	}
	p.once.Do(func() { p.err = checkPeer(p.conn) })
	return p.err
}

func checkPeer(c net.Conn) error {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	uid, err := peerUser(c)
	switch {
	case err != nil:
		return &strangerError{fmt.Sprintf("it is not known whose this connection is: %v", err)}
	case uid != 0 && uid != os.Geteuid():
		return &strangerError{fmt.Sprintf("this connection is of user %d", uid)}
	}
	return nil
}

// expects reports whether a request may name this server as it does. A page of the web
// whose own name was made to resolve to this machine names itself.
func (d *door) expects(r *http.Request) bool {
	if d == nil || r.Host == "" {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(d.hosts, func(name string) bool { return strings.EqualFold(host, name) })
}
