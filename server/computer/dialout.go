package computer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	wire "github.com/wsd-dev/wsd/fs/changes/computerwire"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server"
)

// connectBody is the body of /connect: the base of the host's addresses and two paths
// below it, or in the form of the first clients the URL alone.
type connectBody struct {
	Base            *string  `json:"base"`
	Health          *string  `json:"health"`
	API             *string  `json:"api"`
	URL             *string  `json:"url"`
	HealthTimeoutMs *float64 `json:"healthTimeoutMs"`
}

// A destination is where a host is.
type destination struct {
	health, ws string
	path       string // of ws below the base
	timeout    time.Duration
}

// destination checks what a client has sent.
func (b *connectBody) destination() (d destination, err error) {
	name, base, health, api := "base", b.Base, b.Health, b.API
	if b.URL != nil && base == nil {
		first, last := "/health", pathWS
		name, base, health, api = "url", b.URL, &first, &last
	}
	if base == nil {
		return d, errors.New("'base' must be an http:// or https:// URL")
	}
	u, err := url.Parse(*base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return d, fmt.Errorf("'%s' must be an http:// or https:// URL", name)
	}
	if !isPath(health) {
		return d, errors.New("'health' must be an absolute path such as /health")
	}
	if !isPath(api) {
		return d, errors.New("'api' must be an absolute path such as /api")
	}
	root := u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	d.health, d.ws = root+*health, "ws"+strings.TrimPrefix(root, "http")+*api
	if len(d.health) > MaxConnectURLBytes || len(d.ws) > MaxConnectURLBytes {
		return d, errors.New("the URL is too long")
	}
	d.path, d.timeout = *api, HealthTimeout
	if ms := b.HealthTimeoutMs; ms != nil && *ms > 0 {
		d.timeout = MaxHealthTimeout
		if *ms < float64(MaxHealthTimeout.Milliseconds()) {
			d.timeout = time.Duration(*ms * float64(time.Millisecond))
		}
	}
	return d, nil
}

// isPath reports whether p can be put behind a base and stays below it.
func isPath(p *string) bool {
	if p == nil || !strings.HasPrefix(*p, "/") || strings.HasPrefix(*p, "//") || strings.Contains(*p, `\`) {
		return false
	}
	u, err := url.Parse(*p)
	return err == nil && u.Scheme == "" && u.Host == "" && u.RawQuery == "" && u.Fragment == "" && !strings.ContainsAny(*p, "?#")
}

// An attempt is a /connect that has not replaced the host of before yet. The next one ends
// it.
type attempt struct{ cancel context.CancelCauseFunc }

var errReplaced = errors.New("replaced by new /connect")

// begin makes the latest attempt, and ends the one that there is.
func (c *Computer) begin(ctx context.Context) (context.Context, *attempt) {
	ctx, cancel := context.WithCancelCause(ctx)
	mine := &attempt{cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connect != nil {
		c.connect.cancel(errReplaced)
	}
	c.connect = mine
	return ctx, mine
}

// finish ends an attempt.
func (c *Computer) finish(mine *attempt) {
	mine.cancel(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connect == mine {
		c.connect = nil
	}
}

// connect has the server dial a host and serve it, in the place of the host that it has
// dialled before. It answers as soon as the host's health does.
func (r *routes) connect(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		notAllowed(w, http.MethodPost)
		return
	}
	to, status, err := readConnect(w, req)
	if err != nil {
		text(w, status, err.Error())
		return
	}
	// One place is held throughout: a second Join could be refused when the host of before
	// is replaced already.
	ctx, leave, err := r.server.Join(context.WithoutCancel(req.Context()))
	if err != nil {
		busy(w, err.Error())
		return
	}
	serves := false
	defer func() {
		if !serves {
			leave()
		}
	}()
	waits, mine := r.begin(ctx)
	defer r.finish(mine)
	stop := context.AfterFunc(req.Context(), func() { mine.cancel(context.Cause(req.Context())) })
	defer stop()
	err = awaitHealth(waits, to)
	var s, previous *session
	if err == nil {
		s, previous, err = r.replaceUpstream(mine, to)
	}
	if errors.Is(err, errFull) {
		busy(w, err.Error())
		return
	}
	if err != nil {
		text(w, http.StatusBadGateway, "readiness probe unreachable: "+err.Error())
		return
	}
	serves = true
	header := http.Header{}
	if bearer := req.Header.Get("Authorization"); bearer != "" {
		// The host has set the secret at both ends, and knows by it whom it lets in.
		header.Set("Authorization", bearer)
	}
	go func() { // Shutdown ends it and waits, by way of Join
		defer leave()
		if previous != nil {
			previous.close(websocket.CloseNormalClosure, errReplaced.Error())
		}
		r.dial(ctx, r.server, s, to, header)
	}()
	answer(w, struct {
		OK bool   `json:"ok"`
		WS string `json:"ws"`
	}{true, to.ws})
}

// readConnect reads the body. The status is for the error.
func readConnect(w http.ResponseWriter, req *http.Request) (destination, int, error) {
	defer readWithin(req.Context(), w, BatchReadTimeout)()
	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, MaxConnectBytes))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return destination{}, http.StatusRequestEntityTooLarge, errors.New("the body is too large")
		}
		return destination{}, http.StatusBadRequest, errors.New("the body is not complete")
	}
	var body connectBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return destination{}, http.StatusBadRequest, fmt.Errorf("invalid JSON body: %w", err)
	}
	to, err := body.destination()
	return to, http.StatusBadRequest, err
}

// outside is for what is asked of hosts. They are asked directly, and what they answer
// is not followed elsewhere: the secret would go there too.
var outside = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// awaitHealth asks a host's health until it is well.
func awaitHealth(ctx context.Context, to destination) error {
	limit, stop := context.WithTimeoutCause(ctx, to.timeout, fmt.Errorf("%s not healthy within %s", to.health, to.timeout))
	defer stop()
	tick := time.NewTicker(HealthInterval)
	defer tick.Stop()
	var before error // what the host answered the time before
	for {
		err := healthy(limit, to.health)
		if err == nil {
			return context.Cause(ctx)
		}
		if limit.Err() != nil && before != nil {
			err = before // this time it was not waited for
		}
		before = err
		select {
		case <-limit.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %w", context.Cause(limit), err)
		case <-tick.C:
		}
	}
}

// healthy asks once.
func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, HealthTryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := outside.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return nil
}

// replaceUpstream makes a session for the host of an attempt in the place of the one that
// there is, which it returns to be closed, unless there is a later attempt.
func (c *Computer) replaceUpstream(mine *attempt, to destination) (s, previous *session, err error) {
	if s, err = c.admit(to.ws, to.path, true); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	latest := c.connect == mine
	if latest {
		previous, c.upstream = c.upstream, s
	}
	c.mu.Unlock()
	if !latest {
		s.drop()
		return nil, nil, errReplaced
	}
	return s, previous, nil
}

// dial opens the WebSocket and serves the session.
func (c *Computer) dial(ctx context.Context, srv *server.Server, s *session, to destination, header http.Header) {
	dialing, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	go func() { // ends with dialing, which dial ends
		select {
		case <-s.quit:
			cancel()
		case <-dialing.Done():
		}
	}()
	dialer := websocket.Dialer{WriteBufferSize: 4 << 10}
	ws, resp, err := dialer.DialContext(dialing, to.ws, header)
	cancel()
	if err != nil {
		status := 0
		if resp != nil {
			status = resp.StatusCode
			resp.Body.Close()
		}
		c.log.Warn("host not reached", "conn", s.remote, "status", status, "err", err)
		s.drop()
		return
	}
	c.log.Info("host reached", "conn", s.remote)
	conn := wire.NewTransport(ws, protocol.PingInterval)
	defer conn.Close()
	s.serve(ctx, srv, conn.Conn)
}
