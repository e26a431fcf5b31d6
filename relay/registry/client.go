package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"
)

// A Config says where the registry is and who asks.
type Config struct {
	// BaseURLs has at least one: the nodes of one registry.
	BaseURLs []string
	// Credential goes with every request; nil sends none.
	Credential Credential
	// TLSConfig is for https; nil takes the system's roots.
	TLSConfig *tls.Config
	// Transport replaces the one that the client makes, in tests.
	Transport http.RoundTripper
	// Logger may be nil.
	Logger *slog.Logger
}

// A Client asks a registry.
type Client struct {
	bases []*url.URL
	cred  Credential
	http  *http.Client
	log   *slog.Logger
	// first is the index of the base URL to ask first.
	first atomic.Int32
}

// New returns a client. It refuses URLs that the credential must not be sent to.
func New(cfg Config) (*Client, error) {
	if len(cfg.BaseURLs) == 0 {
		return nil, errors.New("no registry URL")
	}
	c := &Client{cred: cfg.Credential, log: cfg.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	for _, raw := range cfg.BaseURLs {
		u, err := ParseBaseURL(raw)
		if err != nil {
			return nil, err
		}
		if c.cred != nil {
			if err := c.cred.Authorize(&http.Request{URL: u, Header: http.Header{}}); err != nil {
				return nil, err
			}
		}
		c.bases = append(c.bases, u)
	}
	transport := cfg.Transport
	if transport == nil {
		transport = newTransport(cfg.TLSConfig, len(c.bases))
	}
	c.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// newTransport is HTTP/1.1, gives each of several nodes its part of the time to be
// reached, and keeps connections for a while.
func newTransport(conf *tls.Config, nodes int) *http.Transport {
	reach := ConnectTimeout / time.Duration(nodes)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: reach}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: reach,
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 4,
		// A node that is lost without a word must not keep answers from coming.
		ResponseHeaderTimeout: max(RegisterTimeout, ValidateTimeout),
	}
}

// Close gives up the connections that are kept for the next call, which makes a new one.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Rotate makes the next call begin with the next base URL: the one that answers may
// be a node from which nothing else can be had.
func (c *Client) Rotate() {
	c.first.Store((c.first.Load() + 1) % int32(len(c.bases)))
}

// A call is one operation on its way through the base URLs.
type call struct {
	op, env string
	header  http.Header
	in, out any
	limit   time.Duration
	// once: it must not reach two nodes.
	once bool
}

// do asks one base URL after the other until one answers. here reports whether the one
// that has answered is on this machine.
func (c *Client) do(ctx context.Context, k call) (here bool, err error) {
	if err := CheckEnvironmentID(k.env); err != nil {
		return false, err
	}
	body, err := json.Marshal(k.in)
	if err != nil {
		return false, fmt.Errorf("%s: %w", k.op, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.limit, fmt.Errorf("not within %s: %w", k.limit, context.DeadlineExceeded))
	defer cancel()
	first := int(c.first.Load())
	for i := range c.bases {
		n := (first + i) % len(c.bases)
		begun := time.Now()
		here, err = c.ask(ctx, c.bases[n], k, body)
		c.log.Debug("registry asked", "op", k.op, "env", k.env, "host", c.bases[n].Host, "dur", time.Since(begun), "err", err)
		lost, unreachable := errors.AsType[*UnreachableError](err)
		if !unreachable {
			c.first.Store(int32(n))
			return here, err
		}
		if ctx.Err() != nil || k.once && lost.Sent {
			break
		}
	}
	return false, err
}

// ask asks one base URL. here reports whether it is on this machine, by its name or by the
// address that the name leads to.
func (c *Client) ask(ctx context.Context, base *url.URL, k call, body []byte) (here bool, err error) {
	var sent, local atomic.Bool // the transport may still be at it when the call is over
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			addr, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String())
			local.Store(err == nil && addr.Addr().Unmap().IsLoopback())
		},
	})
	unreachable := func(err error) error {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which the message has already
		}
		return &UnreachableError{Op: k.op, Host: base.Host, Sent: sent.Load(), Err: err}
	}

	u := *base
	u.Path += PathPrefix + k.env + "/" + k.op
	if u.RawPath != "" {
		u.RawPath += PathPrefix + k.env + "/" + k.op
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("%s: %w", k.op, err)
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", "") // none is sent, as codex sends none
	// It is not sent either. It has the transport ask again over another connection when the
	// registry closes one that was idle as the request goes out.
	req.Header["Idempotency-Key"] = nil
	if c.cred != nil {
		if err := c.cred.Authorize(req); err != nil {
			return false, fmt.Errorf("%s: %w", k.op, err)
		}
	}

	resp, err := c.http.Do(req)
	if err != nil {
		return false, unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		e, err := statusError(k.op, base.Host, resp)
		if err != nil && codeDecides(resp.StatusCode) {
			return false, unreachable(err)
		}
		return false, e
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxResponse+1))
	switch {
	case err != nil:
		return false, unreachable(err)
	case len(data) > MaxResponse:
		return false, &ResponseError{Op: k.op, Host: base.Host, Problem: fmt.Sprintf("longer than %d bytes", MaxResponse)}
	}
	if err := json.Unmarshal(data, k.out); err != nil {
		return false, &ResponseError{Op: k.op, Host: base.Host, Problem: clean(err.Error(), maxMessage)}
	}
	proxy, err := http.ProxyFromEnvironment(req)
	return Loopback(base) || local.Load() && proxy == nil && err == nil, nil
}

// statusError reads what an error says of itself. Its own error is that the answer was
// cut off.
func statusError(op, host string, resp *http.Response) (*StatusError, error) {
	e := &StatusError{Op: op, Host: host, Status: resp.StatusCode}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	if err == nil {
		e.Code, e.Message = parseError(data)
	}
	return e, err
}

// codeDecides reports whether a status means one thing with one code, and another with
// another: such an answer is none if it was cut off before the code. Otherwise an
// executor that is away for a moment would be one that the registry refuses.
func codeDecides(status int) bool {
	return status == http.StatusConflict || status == http.StatusBadGateway || status == http.StatusServiceUnavailable
}

// parseError returns code and message of an error's body. Either shape of it may be
// alone, beside the other, or beside something else of that name.
func parseError(data []byte) (code, message string) {
	var body struct{ Error, Detail json.RawMessage }
	if json.Unmarshal(data, &body) != nil {
		return "", ""
	}
	for _, raw := range []json.RawMessage{body.Error, body.Detail} {
		var d *ErrorDetail
		if len(raw) > 0 && json.Unmarshal(raw, &d) == nil && d != nil {
			return clean(d.Code, 64), clean(d.Message, maxMessage)
		}
	}
	return "", ""
}
