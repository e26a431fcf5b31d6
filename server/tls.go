package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// TLSFiles are the PEM files of a TLS server. Without names they mean no TLS.
type TLSFiles struct {
	// Cert is the certificate with its chain, Key its private key.
	Cert, Key string
	// ClientCA, if set, holds the authorities one of which must have signed the
	// certificate of a client; others are refused in the handshake.
	ClientCA string
	// Logger is told of changed files, and of such as cannot be used. nil discards.
	Logger *slog.Logger
}

// Config returns the configuration of a server, nil if there is none. Files that change
// are read again at the next handshake; if that fails, what was read before stays.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f.Cert == "" && f.Key == "" && f.ClientCA == "" {
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS needs both --tls-cert and --tls-key")
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	r := &tlsReader{files: f, reading: make(chan struct{}, 1), stamp: f.stamp()}
	cfg, err := f.read()
	if err != nil {
		return nil, err
	}
	r.latest.Store(cfg)
	outer := cfg.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.config(), nil }
	return outer, nil
}

// read makes a configuration of what the files hold now.
func (f TLSFiles) read() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate: %w", err)
	}
	// WebSockets are upgraded from HTTP/1.1; HTTP/2 is not offered.
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if f.ClientCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("read TLS client CA: %w", err)
	}
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS client CA %s holds no certificate", f.ClientCA)
	}
	return cfg, nil
}
