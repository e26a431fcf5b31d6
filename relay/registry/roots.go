package registry

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Environment variables that name a file of certificates in PEM.
const (
	// EnvCA and EnvCodexCA add authorities to those of the system. The first that is set counts.
	EnvCA      = "WSD_CA_CERTIFICATE"
	EnvCodexCA = "CODEX_CA_CERTIFICATE"
	// EnvSSLCertFile replaces those of the system, as it does everywhere; without the
	// others only.
	EnvSSLCertFile = "SSL_CERT_FILE"
)

// TLSConfig returns the configuration for registry and rendezvous that the environment
// asks for: getenv is os.Getenv. Codex reads CODEX_CA_CERTIFICATE for the registry
// only; wsd trusts the same authorities for both, as both are one server's.
func TLSConfig(getenv func(string) string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, name := range []string{EnvCA, EnvCodexCA, EnvSSLCertFile} {
		path := getenv(name)
		if path == "" {
			continue
		}
		pool := x509.NewCertPool()
		if name != EnvSSLCertFile {
			if system, err := x509.SystemCertPool(); err == nil {
				pool = system
			}
		}
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM form", name, path)
		}
		conf.RootCAs = pool
		break
	}
	return conf, nil
}
