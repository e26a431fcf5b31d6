package rendezvous

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// Close codes of RFC 6455.
const (
	closeGoingAway = rpc.CloseGoingAway
	closePolicy    = rpc.ClosePolicyViolation
	closeOverload  = 1013 // try again later
)

// rejectionHeader tells an executor why; it is only logged there.
const rejectionHeader = "X-Codex-Rendezvous-Rejection-Reason"

// writeBuffers are shared, so that idle sockets hold none.
var writeBuffers sync.Pool

var upgrader = websocket.Upgrader{
	WriteBufferPool: &writeBuffers,
	CheckOrigin:     func(*http.Request) bool { return true }, // Handler has refused them
}

// upgrade lets a socket in that comes with a URL that this relay has signed.
func (n *Node) upgrade(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), StateTimeout)
	defer cancel()
	env, remote := r.PathValue("env"), n.remote(r)
	known := false // whoever asks, by a URL that this relay has made, and so env
	refuse := func(status int, why rejection) {
		if known {
			n.audit.write("refused", slog.String("env", env), slog.String("remote", remote),
				slog.Int("status", status), slog.String("reason", string(why)))
		} else {
			n.audit.refused(status, string(why))
		}
		w.Header().Set(rejectionHeader, string(why))
		fail(w, status, string(why), "the relay does not let this socket in")
	}
	t, err := n.verify(ctx, env, r.URL.RawQuery)
	if why, is := asRejection(err); is {
		refuse(http.StatusUnauthorized, why)
		return
	}
	if err != nil {
		n.unreached("env", env, "err", err)
		refuse(http.StatusServiceUnavailable, rejectUnavailable)
		return
	}
	known = true
	if n.isDraining() {
		refuse(http.StatusServiceUnavailable, rejectDraining)
		return
	}
	if t.role == roleEnvironment {
		err = n.upgradeExecutor(ctx, w, r, t, remote)
	} else {
		err = n.upgradeHarness(w, r, t, remote)
	}
	switch why, is := asRejection(err); {
	case err == nil:
	case !is:
		n.unreached("env", env, "err", err)
		refuse(http.StatusServiceUnavailable, rejectUnavailable)
	case why == rejectUnavailable:
		refuse(http.StatusServiceUnavailable, why)
	case why == rejectRoute:
		refuse(http.StatusNotFound, why)
	default:
		refuse(http.StatusUnauthorized, why)
	}
}

// upgradeExecutor attaches an executor that is still the one of its environment.
func (n *Node) upgradeExecutor(ctx context.Context, w http.ResponseWriter, r *http.Request, t *ticket, remote string) error {
	if !websocket.IsWebSocketUpgrade(r) {
		return rejectMalformed
	}
	reg, err := n.registration(ctx, t.env)
	if errors.Is(err, ErrNotFound) {
		return rejectRegistration
	}
	if err == nil {
		reg, err = n.admit(ctx, reg, t)
	}
	if err != nil {
		return err
	}
	token, err := n.liveToken(ctx, reg.Token)
	if err != nil {
		return err
	}
	e := &executor{
		node: n, env: t.env, registration: reg.ID, ticket: t, tokenID: token.ID, remote: remote, began: time.Now(),
		routes: map[string]*route{}, harnesses: map[*harness]struct{}{}, codex: len(reg.Profiles) == 0,
	}
	if !n.reserve(e) {
		return rejectUnavailable
	}
	e.meter, _ = n.meters.enter(token, e.env, false)
	// The State knows of the executor before it has its socket: a URL of before is not let
	// in any more then.
	n.mu.Lock()
	n.attaching[e] = struct{}{}
	n.mu.Unlock()
	leave := func() {
		n.mu.Lock()
		delete(n.attaching, e)
		n.mu.Unlock()
		e.meter.leave(false)
		n.release(e)
	}
	if err := n.claim(ctx, e); err != nil {
		leave()
		return err
	}
	conn, err := accept(w, r, true)
	if err != nil {
		leave()
		if err := n.disclaim(ctx, e.env, e.registration, n.id, false); err != nil {
			n.log.Warn("the state of the relay is not reached", "env", e.env, "err", err)
		}
		return nil // answered by Upgrade
	}
	e.attach(conn)
	go e.serve() // Drain waits for it, by way of reserve
	return nil
}

// upgradeHarness attaches a harness to the executor that it was sent to.
func (n *Node) upgradeHarness(w http.ResponseWriter, r *http.Request, t *ticket, remote string) error {
	if t.node != n.id {
		return rejectRoute
	}
	n.mu.Lock()
	e := n.executors[t.env]
	n.mu.Unlock()
	token, _, _ := strings.Cut(t.subject, ".")
	switch {
	case e == nil || n.brakes.paused(tenancy{token, t.env}):
		return rejectUnavailable
	case e.registration != t.registration:
		return rejectRegistration // which makes the harness ask anew
	}
	ctx, cancel := context.WithTimeout(r.Context(), StateTimeout)
	defer cancel()
	h := newHarness(n, e, t.subject, remote)
	live, err := n.liveToken(ctx, token)
	if err != nil {
		return err
	}
	if !n.reserve(h) {
		return rejectUnavailable
	}
	ok := false
	if h.meter, ok = n.meters.enter(live, t.env, true); !ok {
		n.release(h)
		return rejectUnavailable
	}
	if !e.add(h) {
		h.meter.leave(true)
		n.release(h)
		return rejectUnavailable
	}
	undo := func() {
		e.remove(h)
		h.meter.leave(true)
		n.release(h)
	}
	if err := n.used.take(t.nonce, token, t.expires); err != nil {
		undo()
		return err
	}
	conn, err := accept(w, r, false)
	if err != nil {
		n.used.give(t.nonce) // a request that is no upgrade uses nothing up
		undo()
		return nil // answered by Upgrade
	}
	h.attach(conn)
	go h.serve() // Drain waits for it, by way of reserve
	return nil
}

// liveToken returns a token that is neither revoked nor expired.
func (n *Node) liveToken(ctx context.Context, id string) (*Token, error) {
	var t storedToken
	_, err := read(ctx, n.state, BucketTokens, id, &t)
	if errors.Is(err, ErrNotFound) || err == nil && t.expired(time.Now()) {
		return nil, rejectExpired
	}
	return &t.Token, err
}

func accept(w http.ResponseWriter, r *http.Request, owned bool) (*wsconn.Conn, error) {
	ws, err := upgrader.Upgrade(wsconn.QuietUpgrade(w), r, nil)
	if err != nil {
		return nil, err
	}
	return wsconn.New(ws, wsconn.Config{
		MaxMessageBytes: MaxFrame, PingInterval: PingInterval, PongTimeout: PongTimeout,
		WriteTimeout: WriteTimeout, Binary: true, Owned: owned, Unmasked: true,
	}), nil
}

// reserve takes a place for a socket; false if there is none, or the node drains.
func (n *Node) reserve(s closer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.draining || !n.seats.take(s.token(), n.cfg.MaxSockets) {
		return false
	}
	n.sockets[s] = struct{}{}
	n.wait.Add(1)
	return true
}

func (n *Node) release(s closer) {
	n.mu.Lock()
	delete(n.sockets, s)
	n.seats.give(s.token())
	n.mu.Unlock()
	n.wait.Done()
}
