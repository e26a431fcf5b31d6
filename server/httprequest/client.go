package httprequest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// maxHeadBytes bounds the head of a response; a longer one fails the request.
	maxHeadBytes = 256 << 10
	// maxUnreadBytes bounds what a server may send of a body over HTTP/2 before it is read.
	maxUnreadBytes = 512 << 10
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

		MaxResponseHeaderBytes: maxHeadBytes,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: maxUnreadBytes},
	}}
}

// maxRedirects is how many redirects are followed.
const maxRedirects = 10

// do makes one request, following redirects unless policy is "stop". The headers called
// secret go to no other host than the first.
func (c *client) do(req *http.Request, policy string, secret []string) (*http.Response, error) {
	h := http.Client{Transport: c.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case policy == redirectStop:
			return http.ErrUseLastResponse
		case len(via) >= maxRedirects:
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		case leads(next, via):
			for _, name := range secret {
				next.Header.Del(name)
			}
		}
		return nil
	}}
	resp, err := h.Do(req)
	return resp, withoutURL(err)
}

// leads reports whether a chain of redirects has led away from where it began: to another
// host or port, or from https to http. It stays so when it leads back.
func leads(next *http.Request, via []*http.Request) bool {
	first := via[0].URL
	return slices.ContainsFunc(append(via[1:len(via):len(via)], next), func(r *http.Request) bool {
		return !strings.EqualFold(r.URL.Host, first.Host) || first.Scheme == "https" && r.URL.Scheme != "https"
	})
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
