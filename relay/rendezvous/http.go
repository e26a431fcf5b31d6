package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// Codes of errors, beside those of package registry.
const (
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
	codeBadRequest   = "bad_request"
	codeNotFound     = "not_found"
	codeUnused       = "authorizations_unused"
	codePaused       = "handshakes_failed"
	codeUnavailable  = "relay_unavailable"
)

// Handler answers what comes to the relay, below the path of PublicURL and of NodeURL:
//
//	POST /cloud/environment/ID/register|connect|validate   the registry
//	GET  /relay/ID?...                                     the rendezvous, a WebSocket
//	GET  /healthz                                          200 while the node runs
//	GET  /readyz                                           503 while it drains or its state is not reached
//
// A request with an Origin header comes from a web page and is refused.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+registry.PathPrefix+"{env}/{op}", n.registry)
	mux.HandleFunc("GET "+pathPrefix+"{env}", n.upgrade)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", n.ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, fromPage := r.Header["Origin"]; fromPage {
			fail(w, http.StatusForbidden, codeForbidden, "web pages may not use the relay")
			return
		}
		for _, base := range []string{n.public.Path, n.node.Path} {
			if path, ok := strings.CutPrefix(r.URL.Path, base); ok && base != "" && strings.HasPrefix(path, "/") {
				r.URL.Path, r.URL.RawPath = path, ""
				break
			}
		}
		mux.ServeHTTP(w, r)
	})
}

func (n *Node) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), StateTimeout)
	defer cancel()
	_, err := n.secrets(ctx)
	if err == nil {
		_, err = n.state.List(ctx, BucketNodes)
	}
	if err != nil || n.isDraining() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, code, format string, args ...any) {
	answer(w, status, registry.ErrorBody{Error: &registry.ErrorDetail{Code: code, Message: fmt.Sprintf(format, args...)}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked may be gone
}

// bearer is the token of a request, "" if it has none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// remote is where a request comes from.
func (n *Node) remote(r *http.Request) string {
	if n.cfg.TrustProxy {
		all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if last := strings.TrimSpace(all[len(all)-1]); net.ParseIP(last) != nil {
			return last
		}
	}
	return r.RemoteAddr
}

// registry answers the three operations.
func (n *Node) registry(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), StateTimeout)
	defer cancel()
	env, op := r.PathValue("env"), r.PathValue("op")
	ask := &asked{node: n, env: env, op: op, remote: n.remote(r), request: r}
	role, known := map[string]Role{
		registry.OpRegister: RoleExecutor, registry.OpConnect: RoleHarness, registry.OpValidate: RoleExecutor,
	}[op]
	if !known {
		fail(w, http.StatusNotFound, codeNotFound, "no such operation")
		return
	}
	if err := registry.CheckEnvironmentID(env); err != nil {
		fail(w, http.StatusNotFound, codeNotFound, "%v", err)
		return
	}
	token, err := n.tokens.find(ctx, bearer(r))
	switch {
	case errors.Is(err, errCredential):
		ask.refuse(w, http.StatusUnauthorized, codeUnauthorized, "%v", err)
		return
	case err != nil:
		ask.unreachable(w, err)
		return
	case !token.admits(role, env):
		ask.token = token
		ask.refuse(w, http.StatusForbidden, codeForbidden, "the token is for role %s and environment %s", token.Role, token.Environment)
		return
	}
	ask.token = token
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		ask.refuse(w, http.StatusBadRequest, codeBadRequest, "the body cannot be read, or has more than %d bytes", MaxBody)
		return
	}
	switch op {
	case registry.OpRegister:
		ask.register(ctx, w, body)
	case registry.OpConnect:
		ask.connect(ctx, w, body)
	case registry.OpValidate:
		ask.validate(ctx, w, body)
	}
}

// An asked is a request to the registry, by whom it is known.
type asked struct {
	node    *Node
	env, op string
	remote  string
	token   Token
	request *http.Request
}

func (a *asked) audit(attrs ...slog.Attr) {
	a.node.audit.write(a.op, append([]slog.Attr{
		slog.String("env", a.env), slog.String("token", a.token.ID), slog.String("remote", a.remote),
	}, attrs...)...)
}

// refuse answers that it must not be.
func (a *asked) refuse(w http.ResponseWriter, status int, code, format string, args ...any) {
	if a.token.ID != "" {
		a.audit(slog.Int("status", status), slog.String("code", code))
	} else {
		a.node.audit.refused(status, code)
	}
	fail(w, status, code, format, args...)
}

// refuseBody answers that the body is not what the operation wants; err is the decoder's,
// nil if the public key is missing.
func (a *asked) refuseBody(w http.ResponseWriter, err error) {
	if errors.Is(err, seal.ErrKey) {
		a.refuse(w, http.StatusBadRequest, codeBadRequest, "the public key is not acceptable: %v", err)
		return
	}
	a.refuse(w, http.StatusBadRequest, codeBadRequest, "the body is not a %s request with a public key", a.op)
}

// unreachable answers that nothing can be said. To an executor that is a conflict: it
// asks again then, and ends after anything else (registry.md, section 3).
func (a *asked) unreachable(w http.ResponseWriter, err error) {
	a.node.unreached("env", a.env, "op", a.op, "err", err)
	code := codeUnavailable
	if a.op == registry.OpRegister {
		code = registry.CodeRegistrationConflict
	}
	a.refuse(w, http.StatusServiceUnavailable, code, "the relay cannot decide now: ask again")
}
