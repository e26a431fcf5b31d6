//go:build e2e && linux

package netem

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// wsdPath is the wsd under test.
var wsdPath string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // scenarios wait most of their time
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wsd-netem-")
		if err == nil {
			defer os.RemoveAll(dir)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			wsdPath, err = target.WsdPath(ctx, dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "netem:", err)
			return 1
		}
		return m.Run()
	}())
}

// A logBuffer keeps what programs write, for when the test fails, and says when a line
// has come.
type logBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLog() *logBuffer { return &logBuffer{changed: make(chan struct{})} }

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wait returns once text has been written, or an error after limit.
func (b *logBuffer) wait(text string, limit time.Duration) error {
	timeout := time.After(limit)
	for {
		b.mu.Lock()
		found, changed := strings.Contains(b.text.String(), text), b.changed
		b.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-timeout:
			return fmt.Errorf("%q did not come within %v", text, limit)
		}
	}
}

// command makes a command of the wsd under test in a home of its own.
func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.world.program, args...)
	cmd.Dir = s.home
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "XDG_RUNTIME_DIR=" + s.home, "TERM=xterm", "LANG=C.UTF-8",
		"SSL_CERT_FILE=" + s.world.caFile,
	}
	// Should the test be killed, so are they. Programs are started from the machine's own
	// thread, which lives as long as the machine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// start starts cmd on the machine until the test ends.
func (s *site) start(t *testing.T, name string, cmd *exec.Cmd) *logBuffer {
	t.Helper()
	log := newLog()
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if err := s.machine.do(cmd.Start); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, tail(log.String(), 6000))
		}
	})
	return log
}

// run runs a command to its end on the machine and returns its stdout.
func (s *site) run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := s.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := s.machine.do(cmd.Start); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return stdout.String(), fmt.Errorf("wsd %s: %w\n%s", strings.Join(args, " "), err, tail(stderr.String(), 4000))
	}
	return stdout.String(), nil
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// writeCertificate makes a certificate for ip that is its own authority.
func writeCertificate(t *testing.T, dir string, ip net.IP) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "netem"}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
