package httprequest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// client makes the HTTP requests of one connection.
type client struct {
	*http.Transport
}

func newClient() *client {
	return &client{&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // decode does it, zstd too
		MaxIdleConns:          16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   30 * time.Second,
		ExpectContinueTimeout: time.Second,
	}}
}

// do makes one request, following redirects, ten at most, unless policy is "stop".
func (c *client) do(req *http.Request, policy string) (*http.Response, error) {
	h := http.Client{Transport: c.Transport}
	if policy == redirectStop {
		h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := h.Do(req)
	return resp, withoutURL(err)
}

// withoutURL is err without the URL, which may hold a secret.
func withoutURL(err error) error {
	if failure, ok := errors.AsType[*url.Error](err); ok {
		return failure.Err
	}
	return err
}

// reason is err as a client is told it.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the request timed out"
	}
	return err.Error()
}
