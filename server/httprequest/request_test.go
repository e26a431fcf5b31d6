package httprequest_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/httprequest"
)

func TestMethodAndBody(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.String()+" "+string(body))
	})
	c := connect(t, httprequest.Config{})
	body := protocol.Bytes("a\x00b")
	p := get(url + "/x?y=1#z")
	p.Method, p.BodyBase64 = "PROPFIND", &body
	got := c.must(p)
	if got.Status != 200 || string(got.BodyBase64) != "PROPFIND /x?y=1 a\x00b" {
		t.Errorf("got %d %q", got.Status, got.BodyBase64)
	}
}

func TestErrorStatusIsAResult(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) })
	if got := connect(t, httprequest.Config{}).must(get(url)); got.Status != 503 || string(got.BodyBase64) != "no\n" {
		t.Errorf("got %d %q", got.Status, got.BodyBase64)
	}
}

func TestRequestHeaders(t *testing.T) {
	env := map[string]string{"TOKEN": "secret", "EMPTY": ""}
	variable := func(name string) *string { return &name }
	for _, tc := range []struct {
		name    string
		headers []protocol.HTTPHeader
		want    []string // lines that must be there, in this order
		absent  string
	}{
		{"repeats in order", []protocol.HTTPHeader{{Name: "X-B", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "x-b", Value: "3"}}, []string{"X-B: 1", "X-B: 3"}, ""},
		{"value from the environment", []protocol.HTTPHeader{{Name: "Authorization", Value: "not me", ValueEnvVar: variable("TOKEN")}}, []string{"Authorization: secret"}, "not me"},
		{"an empty variable is a value", []protocol.HTTPHeader{{Name: "X", Value: "not me", ValueEnvVar: variable("EMPTY")}}, []string{"X: "}, "not me"},
		{"host", []protocol.HTTPHeader{{Name: "hOST", Value: "example.test"}}, []string{"Host: example.test"}, "127.0.0.1"},
		{"UTF-8 value", []protocol.HTTPHeader{{Name: "X", Value: "café"}}, []string{"X: café"}, ""},
		{"what the original adds", nil, []string{"Accept: */*", "Accept-Encoding: zstd,gzip"}, "User-Agent"},
		{"but does not override", []protocol.HTTPHeader{{Name: "accept", Value: "a/b"}, {Name: "accept-encoding", Value: "identity"}, {Name: "user-agent", Value: "me"}}, []string{"User-Agent: me", "Accept: a/b", "Accept-Encoding: identity"}, "zstd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url, seen := serveRaw(t, "HTTP/1.1 204 No Content\r\n\r\n")
			c := connect(t, httprequest.Config{LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
			p := get(url)
			p.Headers = tc.headers
			c.must(p)
			head := receive(t, seen)
			rest := head
			for _, line := range tc.want {
				var found bool
				if _, rest, found = strings.Cut(rest, line+"\r\n"); !found {
					t.Errorf("no %q (in this order) in\n%s", line, head)
				}
			}
			if tc.absent != "" && strings.Contains(head, tc.absent) {
				t.Errorf("%q in\n%s", tc.absent, head)
			}
		})
	}
}

func TestRefusedParams(t *testing.T) {
	none := "NOPE"
	edit := func(fn func(p *protocol.HTTPRequestParams)) *protocol.HTTPRequestParams {
		p := get("http://127.0.0.1:1/")
		fn(p)
		return p
	}
	header := func(name, value string) *protocol.HTTPRequestParams {
		return edit(func(p *protocol.HTTPRequestParams) { p.Headers = []protocol.HTTPHeader{{Name: name, Value: value}} })
	}
	c := connect(t, httprequest.Config{LookupEnv: func(string) (string, bool) { return "", false }})
	for _, tc := range []struct {
		name string
		p    *protocol.HTTPRequestParams
		want string // in the message
	}{
		{"scheme", get("ftp://x/"), "http/request only supports http and https URLs, got ftp"},
		{"relative URL", get("nope"), "url is invalid: relative URL without a base"},
		{"no host", get("http:///x"), "url is invalid: empty host"},
		{"bad URL", get("http://[x/"), "url is invalid"},
		{"no method", edit(func(p *protocol.HTTPRequestParams) { p.Method = "" }), "method is invalid"},
		{"bad method", edit(func(p *protocol.HTTPRequestParams) { p.Method = "A B" }), "method is invalid"},
		{"redirect policy", edit(func(p *protocol.HTTPRequestParams) { p.RedirectPolicy = "maybe" }), "expected `follow` or `stop`"},
		{"header name", header("a b", "x"), "header name is invalid"},
		{"empty header name", header("", "x"), "header name is invalid"},
		{"header value", header("X", "a\nSecret: b"), "header value is invalid for X"},
		{"unset variable", edit(func(p *protocol.HTTPRequestParams) {
			p.Headers = []protocol.HTTPHeader{{Name: "X-E", Value: "v", ValueEnvVar: &none}}
		}), "http/request header X-E requires executor environment variable NOPE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := c.refused(tc.p, protocol.CodeInvalidParams); !strings.Contains(got, tc.want) {
				t.Errorf("message %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/from":
			http.Redirect(w, r, "/to", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, "arrived")
		}
	})
	c := connect(t, httprequest.Config{})
	for _, policy := range []string{"", "follow"} {
		p := get(url + "/from")
		p.RedirectPolicy = policy
		if got := c.must(p); got.Status != 200 || string(got.BodyBase64) != "arrived" {
			t.Errorf("policy %q: %d %q", policy, got.Status, got.BodyBase64)
		}
	}
	p := get(url + "/from")
	p.RedirectPolicy = "stop"
	got := c.must(p)
	if got.Status != 302 || !bytes.Contains(got.BodyBase64, []byte("/to")) || value(got, "location") != "/to" {
		t.Errorf("policy stop: %d %q %v", got.Status, got.BodyBase64, got.Headers)
	}
	if msg := c.refused(get(url+"/loop"), protocol.CodeInternal); !strings.HasPrefix(msg, "http/request failed: ") {
		t.Errorf("message %q", msg)
	}
}

// A 307 repeats the body.
func TestRedirectKeepsBody(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, "/to", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	p := get(url + "/from")
	body := protocol.Bytes("again")
	p.Method, p.BodyBase64 = "POST", &body
	if got := connect(t, httprequest.Config{}).must(p); string(got.BodyBase64) != "again" {
		t.Errorf("got %q", got.BodyBase64)
	}
}

func value(r protocol.HTTPResponse, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

func TestTransportFailure(t *testing.T) {
	url, _ := serveRaw(t, "this is not HTTP\r\n\r\n")
	p := get(strings.Replace(url, "http://", "http://user:hunter2@", 1))
	msg := connect(t, httprequest.Config{}).refused(p, protocol.CodeInternal)
	if !strings.HasPrefix(msg, "http/request failed: ") || strings.Contains(msg, "hunter2") {
		t.Errorf("message %q", msg)
	}
}

func TestResponseHeaders(t *testing.T) {
	url, _ := serveRaw(t, "HTTP/1.1 200 OK\r\nX-B: 2\r\nX-Bad: \xff\xfe\r\nX-A: 1\r\nX-Utf: caf\xc3\xa9\r\nX-A: 3\r\nContent-Length: 0\r\n\r\n")
	got := connect(t, httprequest.Config{}).must(get(url))
	want := []protocol.HTTPHeader{
		{Name: "content-length", Value: "0"},
		{Name: "x-a", Value: "1"},
		{Name: "x-a", Value: "3"},
		{Name: "x-b", Value: "2"},
		{Name: "x-utf", Value: "café"},
	}
	if diff := cmp.Diff(want, got.Headers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Headers with values of the environment go to the host that the client named, and no
// further by a redirect, nor back to it from elsewhere.
func TestSL14EnvironmentHeadersStayAtTheirHost(t *testing.T) {
	const key = "env-value"
	seen := make(map[string]http.Header)
	note := func(w http.ResponseWriter, r *http.Request) {
		seen[r.Host+r.URL.Path] = r.Header.Clone()
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}
	first, other := serve(t, note), serve(t, note)
	c := connect(t, httprequest.Config{LookupEnv: func(string) (string, bool) { return key, true }})
	back := first + "/back"
	away := other + "/away?to=" + url.QueryEscape(back)
	here := first + "/here?to=" + url.QueryEscape(away)
	p := get(first + "/start?to=" + url.QueryEscape(here))
	p.Headers = []protocol.HTTPHeader{
		{Name: "X-Api-Key", ValueEnvVar: new("KEY")},
		{Name: "Cookie", ValueEnvVar: new("KEY")},
		{Name: "x-plain", Value: "plain"},
		{Name: "x-api-key", Value: "second"},
	}
	c.must(p)
	for at, sent := range map[string]bool{first + "/start": true, first + "/here": true, other + "/away": false, first + "/back": false} {
		h := seen[strings.TrimPrefix(at, "http://")]
		if got := slices.Contains(h["X-Api-Key"], key); got != sent || h.Get("X-Plain") != "plain" || (h.Get("Cookie") != "") != sent {
			t.Errorf("%s got %v", at, h)
		}
	}
}
