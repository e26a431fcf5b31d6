package client

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/trust"
)

// RelayOptions are what reaching an executor over a relay may be told; the zero value
// works. Of Options, BearerToken and TLSConfig go for registry and rendezvous.
//
// The executor's key is trusted if it has the fingerprint that Pin or the URL gives;
// without one, if it is among the known executors; and if that executor is not known
// yet, it becomes so. An executor that was met with the reliable profile is remembered
// with it, unless Verify decides, or another key of it is known than Pin.
type RelayOptions struct {
	// Identity is the client's own; nil is a fresh one for each Transport.
	Identity *seal.Identity
	// Pin is the fingerprint that the executor's key must have, "SHA256:...".
	Pin string
	// KnownExecutors is the file of known executors; "" is trust.DefaultKnown.
	KnownExecutors string
	// Unknown decides about an executor that is not known, before anything is sent to
	// it; nil takes it. It is known once it has proved to have its key.
	Unknown func(name string, key seal.Fingerprint) error
	// Verify, if set, decides instead of all that.
	Verify func(key *seal.PublicKey) error

	// Credential goes to the registry instead of BearerToken.
	Credential registry.Credential
	// Profile is what streams have; "" is the reliable one where the registry announces
	// it, and the codex one elsewhere.
	Profile frame.Profile
	// StreamLife is how long a reliable stream outlives its socket; 0 is 10 minutes.
	StreamLife time.Duration
	// Trace is told of each frame, OnStep of each step towards a stream. Neither may wait.
	Trace  relay.Trace
	OnStep func(harness.StepReport)
	// Dial replaces what makes sockets to the rendezvous, in tests.
	Dial relay.Dialer
}

// relayTransport is the Transport of relay URLs.
type relayTransport struct {
	harness *harness.Harness
	trust   *relayTrust
}

// DialRelay is Dial for relay URLs: see RelayURL.
func DialRelay(ctx context.Context, url string, opts *Options) (*Client, error) {
	t, err := NewRelayTransport(url, opts)
	if err != nil {
		return nil, err
	}
	return connect(ctx, Open(t, opts))
}

// NewRelayTransport makes the Transport that Dial uses for relay URLs: see RelayURL. It
// keeps one identity for all its connections, and the executor must do so, too.
func NewRelayTransport(rawURL string, opts *Options) (Transport, error) {
	o := opts.withDefaults()
	u, err := ParseRelayURL(rawURL)
	if err != nil {
		return nil, err
	}
	cfg := harness.Config{
		EnvironmentID: u.EnvironmentID, Identity: o.Relay.Identity, Dial: o.Relay.Dial,
		Profile: o.Relay.Profile, StreamLife: o.Relay.StreamLife,
		Trace: o.Relay.Trace, OnStep: o.Relay.OnStep, Logger: o.Logger,
	}
	if cfg.Registry, err = o.registry(u.Registry); err != nil {
		return nil, err
	}
	if cfg.Identity == nil {
		if cfg.Identity, err = seal.NewIdentity(); err != nil {
			return nil, err
		}
	}
	if cfg.Dial == nil {
		cfg.Dial = relay.NewDialer(relay.DialConfig{TLS: o.TLSConfig, Logger: o.Logger})
	}
	t := &relayTransport{}
	if t.trust, err = newRelayTrust(u, o.Relay, o.Logger); err != nil {
		return nil, err
	}
	cfg.Verify, cfg.VerifyProfile = t.trust.verify, t.trust.verifyProfile
	if t.harness, err = harness.New(cfg); err != nil {
		return nil, err
	}
	return t, nil
}

// registry makes the client of the registry at base.
func (o *Options) registry(base string) (*registry.Client, error) {
	cred := o.Relay.Credential
	if cred == nil && o.BearerToken != "" {
		var err error
		if cred, err = registry.Bearer(o.BearerToken); err != nil {
			return nil, err
		}
	}
	return registry.New(registry.Config{
		BaseURLs: []string{base}, Credential: cred, TLSConfig: o.TLSConfig, Logger: o.Logger,
	})
}

func (t *relayTransport) Kind() string  { return "relay" }
func (t *relayTransport) Resumes() bool { return true }

// connectTime implements patient: the harness asks again by itself.
func (t *relayTransport) connectTime() time.Duration { return harness.ConnectTime }

func (t *relayTransport) Connect(ctx context.Context) (rpc.Connection, error) {
	conn, err := t.harness.Connect(ctx)
	if err != nil {
		return nil, err
	}
	profile := frame.Codex
	if stream, ok := conn.(interface{ Info() relay.StreamInfo }); ok {
		profile = stream.Info().Profile
	}
	if err := t.trust.proved(t.harness.Key(), profile); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// relayTrust decides about one executor's key.
type relayTrust struct {
	name string
	opts RelayOptions
	// pin is how the key must be, "" if that is not said.
	pin   string
	known *trust.Known
	log   *slog.Logger
	// unkept says that there is no place for a file, which a pinned key does not need.
	unkept bool

	mu sync.Mutex
	// unknown says that the executor was not known, and is to be once it has proved its key.
	unknown bool
	// reliable says that its profile is remembered.
	reliable bool
}

func newRelayTrust(u RelayURL, o RelayOptions, log *slog.Logger) (*relayTrust, error) {
	r := &relayTrust{name: u.Name, opts: o, pin: u.Pin, log: log}
	if o.Pin != "" {
		pin, err := parsePin(o.Pin)
		switch {
		case err != nil:
			return nil, fmt.Errorf("pinned key: %w", err)
		case u.Pin != "" && u.Pin != pin:
			return nil, fmt.Errorf("pinned key: the URL says %s, and not %s", u.Pin, pin)
		}
		r.pin = pin
	}
	path := o.KnownExecutors
	if path == "" && o.Verify == nil {
		var err error
		if path, err = trust.DefaultKnown(); err != nil && r.pin == "" {
			return nil, fmt.Errorf("known executors: %w; pin the executor's key", err)
		}
		r.unkept = err != nil
	}
	r.known = trust.NewKnown(path)
	return r, nil
}

// verify implements harness.Config.Verify.
func (r *relayTrust) verify(key *seal.PublicKey) error {
	print := key.Fingerprint()
	switch {
	case r.opts.Verify != nil:
		return r.opts.Verify(key)
	case r.pin != "":
		if print.String() == r.pin {
			return nil
		}
		before, err := seal.ParseFingerprint(r.pin)
		if err != nil {
			return err
		}
		return &trust.KeyChangedError{Name: r.name, Before: before, Now: print}
	}
	known, err := r.known.Check(r.name, print)
	if known || err != nil {
		return err
	}
	if r.opts.Unknown != nil {
		if err := r.opts.Unknown(r.name, print); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = true
	return nil
}

// verifyProfile implements harness.Config.VerifyProfile: what an executor was met with once,
// nobody in between takes away later.
func (r *relayTrust) verifyProfile(key *seal.PublicKey, profile frame.Profile) error {
	if r.opts.Verify != nil || r.unkept {
		return nil
	}
	return r.known.CheckProfile(r.name, key.Fingerprint(), profile == frame.Reliable)
}

// proved makes the executor known by the key of its handshake, which need not be the one
// that was looked at last: the registry may name several at once. It remembers that the
// stream is reliable, too, if it can. A key that could not be remembered is tried again
// with the next connection, and refused again.
func (r *relayTrust) proved(key *seal.PublicKey, profile frame.Profile) error {
	print := key.Fingerprint()
	r.mu.Lock()
	unknown, reliable := r.unknown, r.reliable
	r.mu.Unlock()
	if unknown {
		if _, err := r.known.Pin(r.name, print); err != nil {
			return &harness.UntrustedError{Key: print, Err: err}
		}
	}
	if profile == frame.Reliable && !reliable && r.opts.Verify == nil && !r.unkept {
		err := r.known.PinReliable(r.name, print)
		if err != nil { // a file that is provided need not be writable, nor the disk have room
			level := slog.LevelWarn
			if r.pin != "" { // and a pinned key needs no file
				level = slog.LevelDebug
			}
			r.log.Log(context.Background(), level, "the executor's profile is not remembered", "executor", r.name, "err", err)
		}
		reliable = err == nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown, r.reliable = false, reliable
	return nil
}
