//go:build interop

package interop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/openstate"
	"github.com/wsd-dev/wsd/relay/seal"
)

// environment is the one that all executors of these tests have.
const environment = "lab"

// A relayLab is a relay, and what is around it. Harnesses reach it through a cutter.
type relayLab struct {
	t         *testing.T
	workspace string
	home      string
	args      []string
	server    *target.Server
	state     rendezvous.State
	cutter    *cutter
	executor  *target.Server
	ca        string // PEM file, "" without TLS
	log       *lockedBuffer
}

// newRelayLab starts a relay, with TLS under a private authority if it is to be secure.
func newRelayLab(t *testing.T, secure bool) *relayLab {
	t.Helper()
	l := &relayLab{t: t, workspace: tempDir(t), home: tempDir(t), log: &lockedBuffer{}}
	l.cutter = newCutter(t)
	state := "sqlite:" + filepath.Join(l.home, "relay.db")
	place, err := openstate.Parse(state)
	if err != nil {
		t.Fatal(err)
	}
	if l.state, err = place.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.state.Close() })
	scheme := "http"
	l.args = []string{"--state", state}
	if secure {
		scheme = "https"
		var cert, key string
		l.ca, cert, key = l.certificate()
		l.args = append(l.args, "--tls-cert", cert, "--tls-key", key)
	}
	l.args = append(l.args, "--node-url", scheme+"://"+l.cutter.addr)
	l.start(scheme + "://127.0.0.1:0")
	t.Cleanup(func() {
		if err := l.server.Stop(); err != nil {
			t.Errorf("relay: %v", err)
		}
		if t.Failed() {
			t.Logf("logs:\n%s", l.log)
		}
	})
	return l
}

func (l *relayLab) start(listen string) {
	l.t.Helper()
	var err error
	l.server, err = target.Start(context.Background(), target.Config{
		Kind: target.Relay, Path: program, Args: append([]string{"--listen", listen}, l.args...),
		Dir: l.home, Home: l.home, Log: l.log,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.cutter.lead(l.server.Addr)
}

// restart ends the relay, and starts it again where it was.
func (l *relayLab) restart() {
	l.t.Helper()
	listen := l.server.URL
	if err := l.server.Stop(); err != nil {
		l.t.Fatal(err)
	}
	l.start(listen)
}

// certificate makes an authority, and a certificate of it for 127.0.0.1. It returns the
// PEM files of the authority, the certificate and its key.
func (l *relayLab) certificate() (ca, cert, key string) {
	l.t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "relay"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caKey, _ := l.sign(authority, authority, nil, "ca")
	ca = filepath.Join(l.home, "ca.pem")
	_, key = l.sign(leaf, authority, caKey, "cert")
	return ca, filepath.Join(l.home, "cert.pem"), key
}

// sign writes NAME.pem, signed by parent with its key, by its own if that is nil, and
// NAME.key.
func (l *relayLab) sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, name string) (*ecdsa.PrivateKey, string) {
	l.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.t.Fatal(err)
	}
	if parentKey == nil {
		parentKey = private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, parentKey)
	if err != nil {
		l.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		l.t.Fatal(err)
	}
	key := filepath.Join(l.home, name+".key")
	for path, block := range map[string]*pem.Block{
		filepath.Join(l.home, name+".pem"): {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	return private, key
}

func (l *relayLab) token(role rendezvous.Role) string {
	l.t.Helper()
	_, secret, err := rendezvous.Tokens{State: l.state}.Create(l.t.Context(), rendezvous.Token{Role: role, Environment: environment})
	if err != nil {
		l.t.Fatal(err)
	}
	return secret
}

// execute runs an executor in the workspace until the test ends, and returns once it is
// attached. argv is what follows the program's name.
func (l *relayLab) execute(kind target.Kind, argv ...string) {
	l.t.Helper()
	path := program
	if kind == target.Codex {
		var err error
		if path, err = target.Native(codexPath); err != nil {
			l.t.Fatal(err)
		}
	}
	token := l.token(rendezvous.RoleExecutor)
	env := []string{"CODEX_API_KEY=" + token, "WSD_TOKEN=" + token, "XDG_CONFIG_HOME=" + filepath.Join(l.home, "config"), "RUST_LOG=info"}
	if l.ca != "" {
		env = append(env, "SSL_CERT_FILE="+l.ca)
	}
	argv = append([]string{path}, argv...)
	server, err := target.Run(context.Background(), target.Config{Kind: kind, Dir: l.workspace, Home: tempDir(l.t), Env: env, Log: l.log, Stdin: token + "\n"}, argv...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.executor = server
	l.t.Cleanup(func() { _ = server.Stop() }) // the original does not end in order
	l.attached()
}

// attached returns once the executor is.
func (l *relayLab) attached() {
	l.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := rendezvous.Status(l.t.Context(), l.state)
		if err != nil {
			l.t.Fatal(err)
		}
		if len(status.Environments) > 0 && status.Environments[0].Attached {
			return
		}
		select {
		case <-tick.C:
		case <-l.executor.Done():
			l.t.Fatalf("the executor has ended:\n%s", l.log)
		case <-deadline:
			l.t.Fatalf("no executor is attached:\n%s", l.log)
		}
	}
}

// remote is how an executor is told of the relay.
func (l *relayLab) remote() []string {
	return []string{"--remote", l.server.URL, "--environment-id", environment}
}

// codexEnv tells the real harness of the relay.
func (l *relayLab) codexEnv() []string {
	env := []string{
		"CODEX_EXEC_SERVER_NOISE_REGISTRY_URL=" + l.server.URL, "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID=" + environment,
		"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=" + l.token(rendezvous.RoleHarness),
	}
	if l.ca != "" {
		env = append(env, "SSL_CERT_FILE="+l.ca)
	}
	return env
}

// dial is our harness, with streams of a profile.
func (l *relayLab) dial(profile frame.Profile) *client.Client {
	l.t.Helper()
	u, err := url.Parse(l.server.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	opts := &client.Options{
		BearerToken: l.token(rendezvous.RoleHarness),
		Relay:       client.RelayOptions{Profile: profile, Verify: func(*seal.PublicKey) error { return nil }},
	}
	scheme := "relay"
	if l.ca != "" {
		scheme = "relay+https"
		pool := x509.NewCertPool()
		pemBytes, err := os.ReadFile(l.ca)
		if err != nil || !pool.AppendCertsFromPEM(pemBytes) {
			l.t.Fatalf("authority: %v", err)
		}
		opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	c, err := client.DialRelay(l.t.Context(), scheme+"://"+u.Host+"/"+environment, opts)
	if err != nil {
		l.t.Fatalf("%v\n%s", err, l.log)
	}
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

// wantRan checks where a command ran by what it said (see whereAmI).
func (l *relayLab) wantRan(text string, words ...string) {
	l.t.Helper()
	want(l.t, text, words...)
	wantFile(l.t, l.workspace, "made", "done\n")
}

// A cutter passes TCP on, and cuts it.
type cutter struct {
	addr string

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
	wait   sync.WaitGroup
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), conns: map[net.Conn]bool{}}
	c.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.wait.Go(func() { c.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.wait.Wait()
	})
	return c
}

// lead says where to.
func (c *cutter) lead(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = strings.TrimSuffix(addr, "/")
}

func (c *cutter) pass(from net.Conn) {
	defer from.Close()
	c.mu.Lock()
	target := c.target
	c.mu.Unlock()
	to, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	c.mu.Lock()
	c.conns[from] = true
	c.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			_ = from.Close()
			_ = to.Close()
		})
	}
	both.Wait()
	c.mu.Lock()
	delete(c.conns, from)
	c.mu.Unlock()
}

// cut ends all connections, and returns how many there were.
func (c *cutter) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.conns)
	for conn := range c.conns {
		_ = conn.Close()
	}
	return n
}
