package httprequest

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// Values of HTTPRequestParams.RedirectPolicy.
const (
	redirectFollow = "follow"
	redirectStop   = "stop"
)

// build makes the request that p asks for, or says what is wrong with p.
func (s *Service) build(p *protocol.HTTPRequestParams) (*http.Request, error) {
	if p.Method == "" || strings.ContainsFunc(p.Method, notToken) {
		return nil, protocol.InvalidParams("http/request method is invalid: %q", p.Method)
	}
	if err := checkURL(p.URL); err != nil {
		return nil, err
	}
	switch p.RedirectPolicy {
	case "", redirectFollow, redirectStop:
	default:
		return nil, protocol.InvalidParams("http/request redirectPolicy `%s` is unknown, expected `follow` or `stop`", p.RedirectPolicy)
	}
	var body []byte
	if p.BodyBase64 != nil {
		body = *p.BodyBase64
	}
	req, err := http.NewRequest(p.Method, p.URL, bytes.NewReader(body)) //nolint:noctx // exchange adds it
	if err != nil {
		return nil, protocol.InvalidParams("http/request url is invalid: %v", err)
	}
	if err := s.setHeaders(req, p.Headers); err != nil {
		return nil, err
	}
	return req, nil
}

func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return protocol.InvalidParams("http/request url is invalid: %v", withoutURL(err))
	case u.Scheme == "":
		return protocol.InvalidParams("http/request url is invalid: relative URL without a base")
	case u.Scheme != "http" && u.Scheme != "https":
		return protocol.InvalidParams("http/request only supports http and https URLs, got %s", u.Scheme)
	case u.Hostname() == "":
		return protocol.InvalidParams("http/request url is invalid: empty host")
	}
	return nil
}

// setHeaders adds headers as given, then what the original adds where they do not
// say otherwise.
func (s *Service) setHeaders(req *http.Request, headers []protocol.HTTPHeader) error {
	for _, h := range headers {
		if h.Name == "" || strings.ContainsFunc(h.Name, notToken) {
			return protocol.InvalidParams("http/request header name is invalid: %q", h.Name)
		}
		value := h.Value
		if h.ValueEnvVar != nil {
			var ok bool
			if value, ok = s.cfg.LookupEnv(*h.ValueEnvVar); !ok {
				return protocol.InvalidParams("http/request header %s requires executor environment variable %s", h.Name, *h.ValueEnvVar)
			}
		}
		if !validValue(value) { // which is not repeated: it may be a secret
			return protocol.InvalidParams("http/request header value is invalid for %s", h.Name)
		}
		if strings.EqualFold(h.Name, "Host") {
			req.Host = value
			continue
		}
		req.Header.Add(h.Name, value)
	}
	for name, value := range map[string]string{
		"Accept":          "*/*",
		"Accept-Encoding": "zstd,gzip",
		"User-Agent":      "", // keeps net/http from sending its own
	} {
		if _, given := req.Header[name]; !given {
			req.Header[name] = []string{value}
		}
	}
	return nil
}

// fromEnvironment returns the names of headers whose values the client does not know.
func fromEnvironment(headers []protocol.HTTPHeader) (names []string) {
	for _, h := range headers {
		if h.ValueEnvVar != nil {
			names = append(names, h.Name)
		}
	}
	return names
}

// notToken reports whether r may not stand in a method or a header name (RFC 9110,
// section 5.6.2).
func notToken(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	default:
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
}

// validValue reports whether v may be a header's value: no control character but a
// tab.
func validValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
