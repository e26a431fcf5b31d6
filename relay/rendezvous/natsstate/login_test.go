package natsstate

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
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
)

// works opens a state at a URL and writes to it.
func works(t *testing.T, url string) error {
	t.Helper()
	cfg, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Put(t.Context(), rendezvous.BucketTokens, "k", nil, rendezvous.AnyRevision)
	return err
}

func write0600(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPassword(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	host := c.Addresses()[0]
	path := write0600(t, "password", []byte(natstest.Password+"\n"))
	if err := works(t, "nats://"+host+"?user="+natstest.User+"&password_file="+url.QueryEscape(path)); err != nil {
		t.Errorf("password from a file: %v", err)
	}

	// A wrong one ends it at once, and shows up nowhere.
	var log bytes.Buffer
	cfg, err := ParseURL("nats://" + natstest.User + ":hunter2@" + host)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	start := time.Now()
	s, err := Open(t.Context(), cfg)
	if err == nil {
		s.Close()
		t.Fatal("a wrong password is taken")
	}
	if took := time.Since(start); took >= DefaultOpenTimeout {
		t.Errorf("it took %v", took)
	}
	if text := err.Error() + log.String(); strings.Contains(text, "hunter2") || !strings.Contains(err.Error(), host) {
		t.Errorf("error %v, log %s", err, log.String())
	}
}

// Nobody there is an error that says so, after the time that was given.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	start := time.Now()
	s, err := Open(t.Context(), Config{Servers: []string{"127.0.0.1:1"}, OpenTimeout: 2 * time.Second})
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
	if text := err.Error(); !strings.Contains(text, "127.0.0.1:1") || !strings.Contains(text, "gave up after 2s") || !strings.Contains(text, "no servers available") {
		t.Error(text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{Servers: []string{"127.0.0.1:1"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up by the caller: %v", err)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	c := natstest.StartWith(t, 1, func(o *server.Options) {
		o.Username, o.Password, o.Authorization = "", "", "s3cret"
	})
	if err := works(t, "nats://s3cret@"+c.Addresses()[0]); err != nil {
		t.Error(err)
	}
}

func TestNKey(t *testing.T) {
	t.Parallel()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := user.PublicKey()
	seed, _ := user.Seed()
	c := natstest.StartWith(t, 1, func(o *server.Options) {
		o.Username, o.Password = "", ""
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
	})
	if err := works(t, "nats://"+c.Addresses()[0]+"?nkey="+url.QueryEscape(write0600(t, "seed", seed))); err != nil {
		t.Error(err)
	}
}

// A server with accounts wants a credentials file: a signed statement and a key.
func TestCredentials(t *testing.T) {
	t.Parallel()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		kp, err := create()
		if err != nil {
			t.Fatal(err)
		}
		public, err := kp.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return kp, public
	}
	operator, operatorKey := pair(nkeys.CreateOperator)
	account, accountKey := pair(nkeys.CreateAccount)
	_, systemKey := pair(nkeys.CreateAccount)
	user, userKey := pair(nkeys.CreateUser)

	accountClaims := jwt.NewAccountClaims(accountKey)
	accountClaims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1}
	resolver := &server.MemAccResolver{}
	for _, claims := range []*jwt.AccountClaims{accountClaims, jwt.NewAccountClaims(systemKey)} {
		token, err := claims.Encode(operator)
		if err == nil {
			err = resolver.Store(claims.Subject, token)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	userToken, err := jwt.NewUserClaims(userKey).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := jwt.FormatUserConfig(userToken, seed)
	if err != nil {
		t.Fatal(err)
	}
	c := natstest.StartWith(t, 1, func(o *server.Options) {
		o.Username, o.Password = "", ""
		o.TrustedKeys, o.AccountResolver, o.SystemAccount = []string{operatorKey}, resolver, systemKey
	})
	if err := works(t, "nats://"+c.Addresses()[0]+"?creds="+url.QueryEscape(write0600(t, "relay.creds", credentials))); err != nil {
		t.Error(err)
	}
}

// A server with a private certificate authority that wants to see a certificate too.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	serverPair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	c := natstest.StartWith(t, 1, func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSTimeout = true, true, 5
		o.TLSConfig = &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{serverPair},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		}
	})
	certPath, keyPath := url.QueryEscape(write0600(t, "cert", cert)), url.QueryEscape(write0600(t, "key", key))
	base := strings.Replace(c.URL(), "nats://", "tls://", 1)
	if err := works(t, base+"?ca="+certPath+"&cert="+certPath+"&key="+keyPath); err != nil {
		t.Error(err)
	}
	start := time.Now()
	if err := works(t, base+"?cert="+certPath+"&key="+keyPath); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("unknown authority: %v", err)
	}
	if took := time.Since(start); took >= DefaultOpenTimeout {
		t.Errorf("it took %v", took)
	}
	// TLS that is demanded is not given up where the server has none.
	plain := natstest.Start(t, 1)
	if err := works(t, strings.Replace(plain.URL(), "nats://", "tls://", 1)); err == nil {
		t.Error("tls:// works without TLS")
	}
}

// selfSigned returns a certificate for 127.0.0.1 which is its own authority, and its key.
func selfSigned(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}
