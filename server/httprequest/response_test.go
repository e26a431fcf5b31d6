package httprequest_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/httprequest"
)

func gzipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdOf(t *testing.T, s string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(s), nil)
}

func TestDecoding(t *testing.T) {
	for _, tc := range []struct {
		name, encoding string
		body           []byte
		want           string
		kept           bool // the headers
	}{
		{"gzip", "gzip", gzipped(t, "hello"), "hello", false},
		{"gzip in capitals", "GZIP", gzipped(t, "hello"), "hello", false},
		{"zstd", "zstd", zstdOf(t, "hello"), "hello", false},
		{"several", "gzip, gzip", gzipped(t, "x"), string(gzipped(t, "x")), true},
		{"another", "br", []byte("br"), "br", true},
		{"none", "", []byte("plain"), "plain", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if tc.encoding != "" {
					w.Header().Set("Content-Encoding", tc.encoding)
				}
				_, _ = w.Write(tc.body)
			})
			c := connect(t, httprequest.Config{})
			got := c.must(get(url))
			if string(got.BodyBase64) != tc.want {
				t.Errorf("body %q, want %q", got.BodyBase64, tc.want)
			}
			encoding, length := tc.encoding, strconv.Itoa(len(tc.body))
			if !tc.kept {
				encoding, length = "", ""
			}
			if value(got, "content-encoding") != encoding || value(got, "content-length") != length {
				t.Errorf("headers %v, want encoding %q and length %q", got.Headers, encoding, length)
			}
			p := get(url)
			p.StreamResponse = true
			c.must(p)
			if body, failure := c.stream("r"); string(body) != tc.want || failure != nil {
				t.Errorf("streamed %q %v, want %q", body, failure, tc.want)
			}
		})
	}
}

func TestHeadHasNothingToDecode(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") })
	p := get(url)
	p.Method = "HEAD"
	if got := connect(t, httprequest.Config{}).must(p); len(got.BodyBase64) != 0 || value(got, "content-encoding") != "gzip" {
		t.Errorf("got %+v", got)
	}
}

func TestBrokenBody(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 0, 0} // a zstd frame that claims a window of 1.9 TiB
	for name, answer := range map[string]string{
		"cut":         "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
		"cut chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"not gzip":    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
		"cut gzip":    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + string(gzipped(t, big)[:100]),
		"cut zstd":    "HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\n" + string(zstdOf(t, big)[:20]),
		"zstd window": "HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\n" + string(window),
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serveRaw(t, answer)
			c := connect(t, httprequest.Config{})
			if msg := c.refused(get(url), protocol.CodeInternal); !strings.HasPrefix(msg, "failed to read http/request response body: error decoding response body") {
				t.Errorf("message %q", msg)
			}
			p := get(url)
			p.StreamResponse = true
			c.must(p)
			if _, failure := c.stream("r"); failure == nil || !strings.HasPrefix(*failure, "error decoding response body") {
				t.Errorf("stream ended with %v", failure)
			}
		})
	}
}

// A body that is not streamed is limited once decoded: a few bytes may claim many.
func TestBodyLimit(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range protocol.MaxHTTPBodyBytes >> 20 {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	w.Close()
	fits := bytes.Clone(bomb.Bytes())
	tooMuch := append(bytes.Clone(fits), gzipped(t, "x")...)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/fits" {
			_, _ = w.Write(fits)
			return
		}
		_, _ = w.Write(tooMuch)
	})
	c := connect(t, httprequest.Config{})
	if got := c.must(get(url + "/fits")); len(got.BodyBase64) != protocol.MaxHTTPBodyBytes {
		t.Errorf("%d bytes", len(got.BodyBase64))
	}
	if msg := c.refused(get(url+"/more"), protocol.CodeInvalidRequest); !strings.Contains(msg, "67108864") {
		t.Errorf("message %q", msg)
	}
}
