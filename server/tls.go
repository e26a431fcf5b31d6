package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles are the PEM files of a TLS server. The zero value means no TLS.
type TLSFiles struct {
	// Cert is the certificate with its chain, Key its private key.
	Cert, Key string
	// ClientCA, if set, holds the authorities one of which must have signed the
	// certificate of a client; others are refused in the handshake.
	ClientCA string
}

// Config returns the configuration of a server, nil for the zero value.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS needs both --tls-cert and --tls-key")
	}
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
