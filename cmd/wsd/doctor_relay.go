package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
)

// A hop is one step on the way to an executor behind a relay. The first that is not OK
// is where the way ends; those after it were not tried.
type hop struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Micros is how long it took.
	Micros int64  `json:"micros"`
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error,omitempty"`
}

// The hops, in their order.
const (
	hopName      = "DNS"
	hopTCP       = "TCP"
	hopTLS       = "TLS"
	hopRegistry  = "registry"
	hopAttached  = "executor attached"
	hopKey       = "executor's key"
	hopUpgrade   = "rendezvous"
	hopHandshake = "handshake"
	hopRoundTrip = "round trip"
)

// hops collects them; steps are reported by several goroutines.
type hops struct {
	stop func() // called when the way has ended

	mu     sync.Mutex
	all    []hop
	broken error // of the last one, if that is where the way ends
}

// add times f, and reports whether it went well.
func (h *hops) add(name string, f func() (string, error)) error {
	began := time.Now()
	detail, err := f()
	h.put(name, time.Since(began), detail, err)
	return err
}

// put adds a hop, unless the way has ended before it: what tries again is not listened to.
func (h *hops) put(name string, took time.Duration, detail string, err error) {
	out := hop{Name: name, OK: err == nil, Micros: took.Microseconds(), Detail: detail}
	if err != nil {
		if step, ok := errors.AsType[*harness.StepError](err); ok {
			err = step.Err // the hop has a name already
		}
		out.Detail, out.Error = "", err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return
	}
	h.all, h.broken = append(h.all, out), err
	if err != nil {
		h.stop()
	}
}

// list is a copy of the hops up to now.
func (h *hops) list() []hop {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// end is where the way ended: nil if it did not.
func (h *hops) end() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken == nil {
		return nil
	}
	name := h.all[len(h.all)-1].Name
	hint := relayHint(h.broken)
	switch name {
	case hopTCP:
		hint = "is 'wsd relay' running there, and do firewalls let this machine through?"
	case hopRoundTrip:
		hint = notServedHint
	}
	return withHint(fmt.Errorf("%s: %w", name, h.broken), hint)
}

// network tests what lies below the registry: name, TCP, TLS.
func (h *hops) network(ctx context.Context, base string, secure *tls.Config) error {
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	err = h.add(hopName, func() (string, error) {
		addrs, err := net.DefaultResolver.LookupHost(ctx, host)
		return strings.Join(addrs, " "), err
	})
	if err != nil {
		return err
	}
	var conn net.Conn
	err = h.add(hopTCP, func() (string, error) {
		var err error
		if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port)); err != nil {
			return "", err
		}
		return conn.RemoteAddr().String(), nil
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if u.Scheme != "https" {
		return nil
	}
	return h.add(hopTLS, func() (string, error) {
		cfg := secure.Clone()
		if cfg == nil {
			cfg = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if cfg.ServerName == "" {
			cfg.ServerName = host
		}
		c := tls.Client(conn, cfg)
		if err := c.HandshakeContext(ctx); err != nil {
			return "", err
		}
		leaf := c.ConnectionState().PeerCertificates[0]
		return fmt.Sprintf("%s, certificate good until %s", tls.VersionName(c.ConnectionState().Version), leaf.NotAfter.Format(time.DateOnly)), nil
	})
}

// step takes a report of the harness. What the registry knows tells two hops apart:
// whether it answers, and whether the executor is there.
func (h *hops) step(r harness.StepReport) {
	switch r.Step {
	case harness.StepRegistry:
		status, is := errors.AsType[*registry.StatusError](r.Err)
		if offline := is && status.Code == registry.CodeOffline; r.Err != nil && !offline {
			h.put(hopRegistry, r.Took, "", r.Err)
			return
		}
		h.put(hopRegistry, r.Took, "", nil)
		h.put(hopAttached, 0, "", r.Err)
	case harness.StepKey:
		h.put(hopKey, r.Took, "", r.Err)
	case harness.StepUpgrade:
		h.put(hopUpgrade, r.Took, "", r.Err)
	case harness.StepHandshake:
		h.put(hopHandshake, r.Took, "both ends are certain of each other", r.Err)
	}
}

// measureRelay tests each hop of a relay URL, then what lies behind.
func (c *connectionCheck) measureRelay(ctx context.Context, a *app, flags *connectFlags) error {
	u, err := client.ParseRelayURL(c.URL)
	if err != nil {
		return err
	}
	secure, err := flags.tls("")
	if err == nil && secure == nil {
		secure, err = registry.TLSConfig(os.Getenv)
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h := &hops{stop: stop}
	defer func() { c.Hops = h.list() }()
	if err := h.network(ctx, u.Registry, secure); err != nil {
		return h.end()
	}
	before := len(h.list())
	err = c.measureServer(ctx, a, flags, client.Options{Relay: client.RelayOptions{OnStep: h.step}})
	if err != nil && len(h.list()) == before {
		return err // a flag's or a file's, and nobody's on the way
	}
	h.put(hopRoundTrip, micros(c.Median), fmt.Sprintf("p50 of %d", roundTrips), err)
	return h.end()
}

// hopsText is the hops for a person.
func hopsText(all []hop) string {
	var b strings.Builder
	for _, h := range all {
		status, text := "ok", h.Detail
		if !h.OK {
			status, text = "FAIL", h.Error
		}
		fmt.Fprintf(&b, "%-5s %-18s %10v  %s\n", status, h.Name, micros(h.Micros), safeError(text))
	}
	return b.String()
}
