package natsstate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// connect makes the connection, and tries again while servers that are starting cannot
// be reached. What will not get better by waiting (a wrong password, a certificate that
// does not fit) ends it at once.
func (s *State) connect(ctx context.Context) error {
	options, err := s.options()
	if err != nil {
		return err
	}
	scheme := "nats://"
	if s.cfg.TLS {
		scheme = "tls://"
	}
	urls := scheme + strings.Join(s.cfg.Servers, ","+scheme)
	var before error // what the attempt before this one met
	for p := newPause(); ; before = err {
		s.nc, err = nats.Connect(urls, options...)
		if err == nil {
			return nil
		}
		if permanent(err) {
			return err
		}
		s.cfg.Logger.Debug("NATS cannot be reached yet", "err", err)
		if ctx.Err() != nil && before != nil {
			err = before // this one was ended by us
		}
		if waitErr := p.wait(ctx); waitErr != nil {
			return fmt.Errorf("%w (%w)", waitErr, err)
		}
	}
}

// permanent says which errors of a first connection waiting does not mend.
func permanent(err error) bool {
	for _, is := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
		nats.ErrSecureConnWanted, nats.ErrSecureConnRequired, nats.ErrInvalidConnection,
		nats.ErrNkeyButNoSigCB, nats.ErrNkeysNotSupported,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return certificate
}

func (s *State) options() ([]nats.Option, error) {
	log := s.cfg.Logger
	options := []nats.Option{
		nats.Name("wsd relay"),
		nats.SetCustomDialer(&dialer{ctx: s.life}),
		nats.Timeout(connectTimeout),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsOut),
		// For ever, whatever a server says meanwhile; and nothing is kept to be sent later
		// that its caller has been told is not done.
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if s.life.Err() == nil {
				log.Warn("lost the connection to NATS", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connected to NATS again", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS reports an error", "err", err)
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
	}
	if s.cfg.pinned {
		options = append(options, nats.IgnoreDiscoveredServers())
	}
	if s.cfg.ordered {
		options = append(options, nats.DontRandomize())
	}
	login, err := s.cfg.login()
	if err != nil {
		return nil, err
	}
	if login != nil {
		options = append(options, login)
	}
	secure, err := s.cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	return options, nil
}

func (cfg *Config) login() (nats.Option, error) {
	switch {
	case cfg.CredentialsFile != "":
		if _, err := os.Stat(cfg.CredentialsFile); err != nil {
			return nil, fmt.Errorf("credentials for NATS: %w", err)
		}
		return nats.UserCredentials(cfg.CredentialsFile), nil
	case cfg.NKeyFile != "":
		option, err := nats.NkeyOptionFromSeed(cfg.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey for NATS: %w", err)
		}
		return option, nil
	case cfg.Token != "":
		return nats.Token(string(cfg.Token)), nil
	case cfg.User != "":
		password := cfg.Password
		if cfg.PasswordFile != "" {
			var err error
			if password, err = readSecret(cfg.PasswordFile); err != nil {
				return nil, fmt.Errorf("password for NATS: %w", err)
			}
		}
		return nats.UserInfo(cfg.User, string(password)), nil
	}
	return nil, nil // no way to log in is fine
}

// tlsConfig is nil when nothing about TLS is configured: then the servers say whether it is used.
func (cfg *Config) tlsConfig() (*tls.Config, error) {
	if !cfg.TLS && cfg.CAFile == "" && cfg.CertFile == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("certificates for NATS: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificates for NATS: %s holds none in PEM", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate for NATS: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// A dialer ends its attempts when the State is closed, or its opening given up.
type dialer struct {
	ctx context.Context // the life of the State
}

// Dial is for nats.SetCustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	nd := net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	return nd.DialContext(d.ctx, network, address)
}
