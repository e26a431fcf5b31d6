package main

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
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
)

// page gets a page of a server's HTTP side.
func page(t *testing.T, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(url, "ws://", "http://", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestServeMetrics(t *testing.T) {
	with := serveReal(t, "--metrics")
	startSleeper(t, with.dial(), false)
	status, body := page(t, with.url+"/metrics")
	if status != http.StatusOK || !strings.Contains(body, "wsd_build_info{version=") || !strings.Contains(body, "process_open_fds") {
		t.Errorf("/metrics: %d\n%s", status, body)
	}
	if status, body := page(t, with.url+"/health"); status != http.StatusOK || !strings.Contains(body, `"processes":1`) || !strings.Contains(body, `"connections":1`) {
		t.Errorf("/health: %d %s", status, body)
	}
	if status, _ := page(t, serveReal(t).url+"/metrics"); status != http.StatusNotFound {
		t.Errorf("/metrics without --metrics: %d", status)
	}
}

// With --otel, a server whose collector is not there serves and ends all the same.
func TestServeTraces(t *testing.T) {
	r := serveReal(t, "--otel")
	if _, err := r.dial().Status(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}

// With --session-grace 0s the end of a connection is the end of what it started.
func TestServeWithoutGrace(t *testing.T) {
	r := serveReal(t, "--session-grace", "0s")
	c := r.dial()
	info, err := c.Environment(t.Context())
	if err != nil || info.Limits == nil || info.Limits.SessionGraceMs != 0 {
		t.Errorf("limits %+v, %v", info.Limits, err)
	}
	pid := startSleeper(t, c, false)
	c.Close()
	waitGone(t, pid)
}

func TestServeExitOnStdinClose(t *testing.T) {
	for name, set := range map[string]func(r *realServer){
		"flag":     func(r *realServer) { r.Args = append(r.Args, "--exit-on-stdin-close") },
		"variable": func(r *realServer) { r.Env = append(r.Env, envExitOnStdinClose+"=1") },
	} {
		t.Run(name, func(t *testing.T) {
			r := &realServer{Cmd: program(t, "exec-server"), t: t}
			set(r)
			in, err := r.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 100)); err != nil {
				t.Errorf("no URL: %v", err)
			}
			in.Close()
			stuck := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
			defer stuck.Stop()
			if err := r.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, err := makeCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	return certFile, keyFile, pool
}

func makeCertificate(certFile, keyFile string) (*x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "wsd test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	return x509.ParseCertificate(cert)
}

func TestServeTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	r := serveReal(t, "--tls-cert", certFile, "--tls-key", keyFile)
	if !strings.HasPrefix(r.url, "wss://127.0.0.1:") {
		t.Fatalf("URL %s", r.url)
	}
	c, err := client.Dial(t.Context(), r.url, &client.Options{TLSConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if status, err := c.Status(t.Context()); err != nil || status != "ready" {
		t.Errorf("status %q, %v", status, err)
	}
	var dir string
	for _, v := range r.Env {
		if value, ok := strings.CutPrefix(v, "XDG_RUNTIME_DIR="); ok {
			dir = value
		}
	}
	servers, err := runtimeDir(filepath.Join(dir, "wsd")).servers()
	if err != nil || len(servers) != 1 || servers[0].URL != r.url || servers[0].CertFile != certFile || servers[0].PID != r.Process.Pid {
		t.Errorf("runtime file: %+v, %v", servers, err)
	}
}
