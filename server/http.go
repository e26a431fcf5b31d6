package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// HTTPConfig is what the HTTP side of a Server may be told. The zero value works.
type HTTPConfig struct {
	// Authorize refuses a request with an error, whose text is the body of a 401. nil
	// lets everybody in. *auth.Policy has such a method.
	Authorize func(r *http.Request) error
	// Metrics answers GET /metrics; nil means there is no such page.
	Metrics http.Handler
	// Version is what /health calls this program.
	Version string
	// Processes counts the running processes for /health. nil leaves them out.
	Processes func() int
	// Routes are further pages by their paths, behind Authorize. With them, paths that
	// are none are behind it too: what there is, is not for everybody to find out.
	Routes map[string]http.Handler

	door *door // set by Listen
}

// Handler serves the WebSocket endpoint at / and the pages about the server:
//
//	GET /         the WebSocket endpoint
//	GET /readyz   200, or 503 during shutdown; empty, needs no authorization
//	GET /healthz  200 while the program runs; empty, needs no authorization
//	GET /health   what the server holds, as JSON; the status only without authorization
//	GET /metrics  for Prometheus, if enabled; needs authorization
//
// and the Routes of cfg.
//
// A request with an Origin header comes from a web page, and is refused before all
// else: no page may reach a server on its visitor's machine. Listen adds checks where
// nothing authorizes requests.
func (s *Server) Handler(cfg HTTPConfig) http.Handler {
	h := &handler{server: s, cfg: cfg}
	h.pages = map[string]http.HandlerFunc{"/readyz": h.ready, "/healthz": alive, "/health": h.health}
	return h
}

type handler struct {
	server *Server
	cfg    HTTPConfig
	pages  map[string]http.HandlerFunc
}

// ServeHTTP implements http.Handler. Statuses and bodies are those of the original
// for what it knows: / and /readyz.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, fromPage := r.Header["Origin"]; fromPage {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if !h.cfg.door.expects(r) {
		text(w, http.StatusForbidden, fmt.Sprintf("forbidden: this server is not called %.100q; name it by its address or as localhost, or start it with --allowed-host", r.Host))
		return
	}
	page, route := h.pages[r.URL.Path], h.cfg.Routes[r.URL.Path]
	switch {
	case r.URL.Path == "/":
		h.webSocket(w, r)
	case r.URL.Path == "/metrics" && h.cfg.Metrics != nil:
		h.authorized(h.cfg.Metrics.ServeHTTP)(w, r)
	case route != nil:
		h.authorized(route.ServeHTTP)(w, r)
	case page == nil && h.cfg.Routes != nil:
		h.authorized(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })(w, r)
	case page == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET,HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		page(w, r)
	}
}

func alive(http.ResponseWriter, *http.Request) {}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	if h.server.Draining() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// authorized wraps a page that not everybody may see.
func (h *handler) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h.authorize(r); err != nil {
			h.refuse(w, r, err)
			return
		}
		next(w, r)
	}
}

func (h *handler) authorize(r *http.Request) error {
	if h.cfg.Authorize == nil {
		return h.cfg.door.admit(r)
	}
	return h.cfg.Authorize(r)
}

// refuse answers a request that authorize refuses.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if _, stranger := errors.AsType[*strangerError](err); stranger {
		h.server.cfg.Logger.Warn("request refused", "conn", remoteName(r), "err", err)
		text(w, http.StatusForbidden, err.Error())
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	text(w, http.StatusUnauthorized, err.Error())
}

// text answers with a line of text, without a line end as the original does.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// hasToken reports whether a header that lists tokens lists one, in any case.
func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}
