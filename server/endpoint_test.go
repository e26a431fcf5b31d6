package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc/lineconn"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

func TestListenURLs(t *testing.T) {
	for _, tc := range []struct {
		url  string
		want string // scheme, address and path, or the error
	}{
		{"", "ws 127.0.0.1:0 "},
		{"ws://127.0.0.1:45678", "ws 127.0.0.1:45678 "},
		{"ws://[::1]:0", "ws [::1]:0 "},
		{"wss://10.0.0.1:443", "wss 10.0.0.1:443 "},
		{"unix:///tmp/wsd.sock", "unix invalid AddrPort /tmp/wsd.sock"},
		{"stdio", "stdio invalid AddrPort "},
		{"stdio://", "stdio invalid AddrPort "},
		{"ws://localhost:1", "invalid websocket --listen URL `ws://localhost:1`; expected `ws://IP:PORT`"},
		{"ws://127.0.0.1", "invalid websocket --listen URL `ws://127.0.0.1`; expected `ws://IP:PORT`"},
		{"ws://127.0.0.1:1/path", "invalid websocket --listen URL `ws://127.0.0.1:1/path`; expected `ws://IP:PORT`"},
		{"ws://127.0.0.1:65536", "invalid websocket --listen URL `ws://127.0.0.1:65536`; expected `ws://IP:PORT`"},
		{"wss://host:1", "invalid websocket --listen URL `wss://host:1`; expected `wss://IP:PORT`"},
		{"unix://relative", "invalid unix --listen URL `unix://relative`; expected `unix:///PATH`"},
		{"unix:///dir/", "invalid unix --listen URL `unix:///dir/`; expected `unix:///PATH`"},
		{"http://127.0.0.1:1", "unsupported --listen URL `http://127.0.0.1:1`; expected `ws://IP:PORT` or `stdio`, `wss://IP:PORT` or `unix:///PATH`"},
		{"stdio://x", "unsupported --listen URL `stdio://x`; expected `ws://IP:PORT` or `stdio`, `wss://IP:PORT` or `unix:///PATH`"},
		{"127.0.0.1:1", "unsupported --listen URL `127.0.0.1:1`; expected `ws://IP:PORT` or `stdio`, `wss://IP:PORT` or `unix:///PATH`"},
	} {
		u, err := parseListenURL(tc.url)
		got := u.scheme + " " + u.addr.String() + " " + u.path
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tc.url, got, tc.want)
		}
	}
}

func TestAnnounce(t *testing.T) {
	w := newWorld(t, Config{})
	var out bytes.Buffer
	e, err := w.Listen(EndpointConfig{URL: "ws://127.0.0.1:0", Announce: &out})
	if err != nil {
		t.Fatal(err)
	}
	w.run(e)
	if !regexp.MustCompile(`^ws://127\.0\.0\.1:[1-9][0-9]*\n$`).MatchString(out.String()) || out.String() != e.URL()+"\n" {
		t.Errorf("announced %q, URL %s", out.String(), e.URL())
	}
	webSocket(t, strings.TrimSpace(strings.TrimPrefix(out.String(), "ws://"))).open("")
}

func TestRefusesWhatOthersCanReach(t *testing.T) {
	w := newWorld(t, Config{})
	files := newAuthority(t)
	for _, url := range []string{"ws://0.0.0.0:0", "ws://[::]:0", "ws://[::ffff:0.0.0.0]:0", "ws://192.0.2.1:1"} {
		_, err := w.Listen(EndpointConfig{URL: url})
		if err == nil || !strings.Contains(err.Error(), "--ws-auth") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := w.Listen(EndpointConfig{URL: "wss://0.0.0.0:0", TLS: files.server("")}); err == nil {
		t.Error("TLS alone lets everybody in, and was accepted")
	}
	for name, cfg := range map[string]EndpointConfig{
		"authorization":       {URL: "ws://0.0.0.0:0", HTTP: HTTPConfig{Authorize: func(*http.Request) error { return errors.New("no") }}},
		"client certificates": {URL: "wss://0.0.0.0:0", TLS: files.server(files.caFile)},
		"loopback":            {URL: "ws://127.0.0.2:0"},
	} {
		e, err := w.Listen(cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e.Close()
	}
}

func TestListenErrors(t *testing.T) {
	w := newWorld(t, Config{})
	files := newAuthority(t)
	taken, err := w.Listen(EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tc := range map[string]struct {
		cfg  EndpointConfig
		want string
	}{
		"port taken":          {EndpointConfig{URL: taken.URL()}, "address already in use"},
		"wss without a key":   {EndpointConfig{URL: "wss://127.0.0.1:0"}, "needs --tls-cert and --tls-key"},
		"half a pair":         {EndpointConfig{TLS: TLSFiles{Cert: files.caFile}}, "both --tls-cert and --tls-key"},
		"client CA alone":     {EndpointConfig{TLS: TLSFiles{ClientCA: files.caFile}}, "both --tls-cert and --tls-key"},
		"no such certificate": {EndpointConfig{TLS: TLSFiles{Cert: "/nonexistent", Key: "/nonexistent"}}, "load TLS certificate"},
		"no such client CA":   {EndpointConfig{TLS: files.server("/nonexistent")}, "read TLS client CA"},
		"no CA in the file":   {EndpointConfig{TLS: files.server(files.server("").Key)}, "holds no certificate"},
		"TLS on unix":         {EndpointConfig{URL: "unix:///tmp/x", TLS: files.server("")}, "TLS needs a ws://"},
		"TLS on stdio":        {EndpointConfig{URL: "stdio", TLS: files.server("")}, "TLS needs a ws://"},
		"auth on stdio":       {EndpointConfig{URL: "stdio", HTTP: HTTPConfig{Authorize: func(*http.Request) error { return nil }}}, "--ws-auth needs"},
		"no directory":        {EndpointConfig{URL: "unix:///nonexistent/dir/s"}, "listen on unix socket"},
		"nobody to tell":      {EndpointConfig{Announce: brokenWriter{}}, "announce the URL"},
	} {
		if _, err := w.Listen(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, tc.want)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestUnixSocket(t *testing.T) {
	w := newWorld(t, Config{})
	path := filepath.Join(t.TempDir(), "wsd.sock")
	var out bytes.Buffer
	e, err := w.Listen(EndpointConfig{URL: "unix://" + path, Announce: &out})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, e) }()
	if want := "unix://" + path + "\n"; out.String() != want {
		t.Errorf("announced %q", out.String())
	}
	file, err := os.Lstat(path)
	if err != nil || file.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket file: %v, %v", file.Mode(), err)
	}
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	ws, resp, err := dialer.DialContext(t.Context(), "ws://socket/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	c := &client{t: t, conn: wsconn.New(ws, wsconn.Config{})}
	c.open("")
	c.ping()

	if _, err := w.Listen(EndpointConfig{URL: "unix://" + path}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a second server: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

func TestStaleUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wsd.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	first, err := listenUnix(path)
	if err != nil {
		t.Fatalf("a stale file was not replaced: %v", err)
	}

	// A file that is another server's by now is left alone.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first server took the second's socket: %v", err)
	}
	conn.Close()
}

func TestUnixSocketReplacesNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wsd.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

// Of servers that start at once where a stale file lies, one gets the socket.
func TestUnixSocketRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wsd.sock")
	for range 20 {
		stale, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		stale.(*net.UnixListener).SetUnlinkOnClose(false)
		stale.Close()
		type outcome struct {
			ln  net.Listener
			err error
		}
		outcomes := make(chan outcome)
		for range 4 {
			go func() {
				ln, err := listenUnix(path)
				outcomes <- outcome{ln, err}
			}()
		}
		var won net.Listener
		for range 4 {
			if o := <-outcomes; o.err == nil {
				if won != nil {
					t.Fatal("two servers listen")
				}
				won = o.ln
			}
		}
		if won == nil {
			t.Fatal("no server listens")
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the winner cannot be reached: %v", err)
		}
		conn.Close()
		won.Close()
	}
}

// authority signs certificates for a test.
type authority struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
	caFile string
	pool   *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.caFile = a.write("CERTIFICATE", der)
	return a
}

func (a *authority) write(kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.t.TempDir(), "pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// pair signs a certificate and returns the files of it and of its key.
func (a *authority) pair() (cert, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write("CERTIFICATE", der), a.write("PRIVATE KEY", pkcs8)
}

func (a *authority) server(clientCA string) TLSFiles {
	cert, key := a.pair()
	return TLSFiles{Cert: cert, Key: key, ClientCA: clientCA}
}

func TestTLS(t *testing.T) {
	w := newWorld(t, Config{})
	mine, other := newAuthority(t), newAuthority(t)
	plain, err := w.Listen(EndpointConfig{URL: "ws://127.0.0.1:0", TLS: mine.server("")})
	if err != nil {
		t.Fatal(err)
	}
	mutual, err := w.Listen(EndpointConfig{URL: "wss://127.0.0.1:0", TLS: mine.server(mine.caFile)})
	if err != nil {
		t.Fatal(err)
	}
	w.run(plain, mutual)
	certificate := func(a *authority) []tls.Certificate {
		cert, err := tls.LoadX509KeyPair(a.pair())
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{cert}
	}
	for _, tc := range []struct {
		name string
		url  string
		cfg  *tls.Config
		ok   bool
	}{
		{"known authority", plain.URL(), &tls.Config{RootCAs: mine.pool}, true},
		{"TLS 1.2", plain.URL(), &tls.Config{RootCAs: mine.pool, MaxVersion: tls.VersionTLS12}, true},
		{"TLS 1.1", plain.URL(), &tls.Config{RootCAs: mine.pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		{"unknown authority", plain.URL(), &tls.Config{RootCAs: other.pool}, false},
		{"HTTP/2 offered", plain.URL(), &tls.Config{RootCAs: mine.pool, NextProtos: []string{"h2", "http/1.1"}}, true},
		{"client certificate", mutual.URL(), &tls.Config{RootCAs: mine.pool, Certificates: certificate(mine)}, true},
		{"no client certificate", mutual.URL(), &tls.Config{RootCAs: mine.pool}, false},
		{"another's client certificate", mutual.URL(), &tls.Config{RootCAs: mine.pool, Certificates: certificate(other)}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !strings.HasPrefix(tc.url, "wss://127.0.0.1:") {
				t.Fatalf("URL %s", tc.url)
			}
			ws, resp, err := (&websocket.Dialer{TLSClientConfig: tc.cfg}).DialContext(t.Context(), tc.url, nil)
			if err == nil {
				resp.Body.Close()
				defer ws.Close()
			}
			if (err == nil) != tc.ok {
				t.Fatalf("dial: %v", err)
			}
			if tc.ok {
				c := &client{t: t, conn: wsconn.New(ws, wsconn.Config{})}
				c.open("")
				c.ping()
			}
		})
	}
}

// stdio is the parent's side of a server on streams.
type stdio struct {
	*client
	in   *os.File
	done chan error
}

func runStdio(t *testing.T, w *world) *stdio {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.Listen(EndpointConfig{URL: "stdio", Stdin: inR, Stdout: outW, Announce: brokenWriter{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &stdio{client: &client{t: t, conn: lineconn.New(outR, inW, nil)}, in: inW, done: make(chan error, 1)}
	t.Cleanup(func() { inW.Close(); outR.Close() })
	go func() {
		s.done <- w.Run(context.Background(), e)
		outW.Close() // as the end of the program would
	}()
	return s
}

// At the end of its input a stdio server answers what it has read, the last line
// without a line end too, kills its children and ends.
func TestStdioEOF(t *testing.T) {
	for range 25 {
		w := newWorld(t, Config{})
		s := runStdio(t, w)
		s.open("")
		const n = 100
		for range n {
			s.send(`{"id":1,"method":"fs/getMetadata","params":{"path":"p"}}`)
		}
		if _, err := io.WriteString(s.in, `{"id":1,"method":"fs/getMetadata","params":{"path":"p"}}`); err != nil {
			t.Fatal(err)
		}
		s.in.Close()
		for range n + 1 {
			s.want(`{"id":1,"result":{"path":"p"}}`)
		}
		if _, err := s.conn.Read(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after the answers: %v", err)
		}
		if err := <-s.done; err != nil {
			t.Error(err)
		}
		if !w.process(0).isClosed() {
			t.Error("the session outlived its server")
		}
	}
}

func TestStdioBadLines(t *testing.T) {
	w := newWorld(t, Config{})
	s := runStdio(t, w)
	s.send("{oops")
	if text := s.wantError("-1", protocol.CodeInvalidRequest); !strings.HasPrefix(text, "failed to parse JSON-RPC message from exec-server stdio: ") {
		t.Errorf("got %q", text)
	}
	s.send("", "\r")
	id := s.open("")
	s.ping()
	s.send(initializeRequest(id))
	s.wantError(`"init"`, protocol.CodeInvalidRequest)
	s.in.Close()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// The end of the context ends a server whose input stays open, at once.
func TestRunEndsAtOnce(t *testing.T) {
	w := newWorld(t, Config{})
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inW.Close()
	pipes, err := w.Listen(EndpointConfig{URL: "stdio", Stdin: inR, Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	web, err := w.Listen(EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, pipes, web) }()
	c := webSocket(t, strings.TrimPrefix(web.URL(), "ws://"))
	c.open("")
	began := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= protocol.ShutdownTimeout {
		t.Errorf("took %v", took)
	}
	if !w.process(0).isClosed() {
		t.Error("the session outlived its server")
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(web.URL(), "ws://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("still listening: %v", err)
	}
}

// What sends no request, or one without an end, is not kept for ever; how many there
// may be is newcomers' affair.
func TestSilentClientsAreBounded(t *testing.T) {
	w := newWorld(t, Config{})
	web := w.httpServer(HTTPConfig{})
	if web.ReadHeaderTimeout <= 0 || web.IdleTimeout <= 0 || web.MaxHeaderBytes <= 0 {
		t.Errorf("no limits: %+v", web)
	}
	addr := w.listen(HTTPConfig{})
	if got := ask(t, addr, "GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 2*protocol.MaxHTTPHeaderBytes)+"\r\n"); got.status != 431 {
		t.Errorf("a large head: %d", got.status)
	}
}
