package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// upgrader makes WebSockets that hold no write buffer while idle and take over the
// read buffer of net/http. Neither compression nor a subprotocol is agreed on,
// whatever the client offers.
var upgrader = websocket.Upgrader{
	HandshakeTimeout: 5 * time.Second,
	WriteBufferSize:  4 << 10,
	WriteBufferPool:  new(sync.Pool),
	CheckOrigin:      func(*http.Request) bool { return true }, // refused in ServeHTTP
	Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
		text(w, status, reason.Error())
	},
}

// webSocket upgrades the request and has the server serve what comes of it, on a
// goroutine of its own: this one's stack has grown and the request is garbage.
func (h *handler) webSocket(w http.ResponseWriter, r *http.Request) {
	if status, why := refuseUpgrade(r); status != 0 {
		text(w, status, why)
		return
	}
	remote, request := remoteName(r), shorten(r.Header.Get("X-Request-Id"))
	if err := h.authorize(r); err != nil {
		h.server.cfg.Logger.Warn("connection refused", "conn", remote, "request", request, "err", err)
		status := http.StatusUnauthorized
		if _, stranger := errors.AsType[*strangerError](err); stranger {
			status = http.StatusForbidden
		}
		text(w, status, err.Error())
		return
	}
	if err := h.server.reserve(); err != nil {
		h.server.noRoom(w, r, err)
		return
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		h.server.release()
		return // answered by Upgrade
	}
	opts := ConnectionOptions{
		Remote: remote, RequestID: request,
		ParsePrefix: "failed to parse websocket JSON-RPC message from exec-server websocket " + remote + ": ",
	}
	go func() { // Shutdown ends it and waits, by way of reserve
		defer h.server.release()
		conn := wsconn.New(ws, wsconn.Config{PingInterval: protocol.PingInterval, Unmasked: true})
		_ = h.server.serve(context.Background(), conn, opts) // logged there
	}()
}

// noRoom answers a request for which there is no place.
func (s *Server) noRoom(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrTooManyConnections) {
		s.cfg.Logger.Warn("connection refused", "conn", remoteName(r), "request", shorten(r.Header.Get("X-Request-Id")), "err", err)
	}
	w.Header().Set("Retry-After", "1")
	text(w, http.StatusServiceUnavailable, err.Error())
}

// refuseUpgrade returns the status and text for a request that is no WebSocket
// handshake, in the words and the order of the original.
func refuseUpgrade(r *http.Request) (status int, why string) {
	switch {
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, "Request method must be `GET`"
	case !hasToken(r.Header, "Connection", "upgrade"):
		return http.StatusBadRequest, "Connection header did not include 'upgrade'"
	case !hasToken(r.Header, "Upgrade", "websocket"):
		return http.StatusBadRequest, "`Upgrade` header did not include 'websocket'"
	case r.Header.Get("Sec-WebSocket-Key") == "":
		return http.StatusBadRequest, "`Sec-WebSocket-Key` header missing"
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return http.StatusBadRequest, "`Sec-WebSocket-Version` header did not include '13'"
	case !r.ProtoAtLeast(1, 1):
		return http.StatusUpgradeRequired, "WebSocket request couldn't be upgraded since no upgrade state was present"
	}
	return 0, ""
}

// remoteName names the client of a request.
func remoteName(r *http.Request) string {
	if strings.Contains(r.RemoteAddr, ":") {
		return r.RemoteAddr
	}
	return "unix"
}
