package computer

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
	"github.com/wsd-dev/wsd/server"
)

// Routes are the pages of the computer, for the HTTPConfig of a server. Sessions and
// batches take places of srv, whose Shutdown ends them. Runs go on.
func (c *Computer) Routes(srv *server.Server) map[string]http.Handler {
	r := &routes{c, srv}
	return map[string]http.Handler{
		pathWS:              http.HandlerFunc(r.webSocket),
		pathAPI:             http.HandlerFunc(r.api),
		"/connect":          http.HandlerFunc(r.connect),
		"/api/watermarks":   reads(r.watermarks),
		"/__computerd/info": reads(r.info),
	}
}

type routes struct {
	*Computer
	server *server.Server
}

// text answers with a line of text.
func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line + "\n")) // fails only when nobody is there to read it
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // fails only when nobody is there to read it
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	text(w, http.StatusMethodNotAllowed, "method not allowed")
}

func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	text(w, http.StatusServiceUnavailable, why)
}

// reads is for pages that are read only.
func reads(page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed(w, "GET, HEAD")
			return
		}
		page(w, r)
	})
}

// api is a WebSocket or a batch.
func (r *routes) api(w http.ResponseWriter, req *http.Request) {
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		r.webSocket(w, req)
	case http.MethodPost:
		r.batch(w, req)
	default:
		notAllowed(w, "GET, HEAD, POST")
	}
}

// webSocket serves a session.
func (r *routes) webSocket(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Upgrade") == "" {
		text(w, http.StatusBadRequest, req.URL.Path+" requires a websocket upgrade")
		return
	}
	s, err := r.admit(req.RemoteAddr, req.URL.Path, false)
	if err != nil {
		r.log.Warn("session refused", "conn", req.RemoteAddr, "err", err)
		busy(w, err.Error())
		return
	}
	serve := func(ctx context.Context, conn *wsconn.Conn) { s.serve(ctx, r.server, conn) }
	if !r.server.ServeWebSocket(w, req, wire.ConnConfig(protocol.PingInterval), serve) {
		s.drop()
	}
}

// batch serves the calls of one request.
func (r *routes) batch(w http.ResponseWriter, req *http.Request) {
	select {
	case r.batches <- struct{}{}:
		defer func() { <-r.batches }()
	default:
		busy(w, "too many batches")
		return
	}
	ctx, leave, err := r.server.Join(req.Context())
	if err != nil {
		busy(w, err.Error())
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	account := r.server.NewAccount(func(reason string) {
		r.log.Warn("batch cut", "conn", req.RemoteAddr, "err", reason)
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // not every writer can
	})
	defer account.Close()
	defer readWithin(ctx, w, BatchReadTimeout)()
	capnweb.BatchHandler(func(*http.Request) capnweb.Config { return r.config(nil, pathAPI, account) }).ServeHTTP(w, req.WithContext(ctx))
}

// readWithin bounds the time that the body may take, which ends with ctx, too. Not every
// writer can; then the limits of the server hold.
func readWithin(ctx context.Context, w http.ResponseWriter, limit time.Duration) (stop func()) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(limit))
	after := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	return func() { after() }
}

func (r *routes) watermarks(w http.ResponseWriter, req *http.Request) {
	marks, err := r.cfg.Peer.Watermarks(req.Context(), false)
	if err != nil {
		r.log.Error("no watermarks", "conn", req.RemoteAddr, "err", err)
		text(w, http.StatusInternalServerError, "internal error")
		return
	}
	answer(w, wire.WatermarksOf(marks))
}

// Info is the JSON of /__computerd/info.
type Info struct {
	MountPoint string `json:"mountPoint"`
	Version    string `json:"version,omitempty"`
	Ignore     struct {
		Supported bool     `json:"supported"`
		Patterns  []string `json:"patterns"`
	} `json:"ignore"`
	// WorkspacePlace is for clients of ours.
	WorkspacePlace *protocol.WorkspacePlace `json:"workspacePlace,omitempty"`
}

func (r *routes) info(w http.ResponseWriter, _ *http.Request) {
	info := Info{MountPoint: r.cfg.MountPoint, Version: r.cfg.Version, WorkspacePlace: r.cfg.Place}
	info.Ignore.Supported = true
	info.Ignore.Patterns = make([]string, len(r.cfg.Hidden))
	for i, name := range r.cfg.Hidden {
		info.Ignore.Patterns[i] = "**/" + name
	}
	answer(w, info)
}
