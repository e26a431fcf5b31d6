package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
)

// A hop is one step on the way to an executor behind a relay. The first that is not OK
// is where the way ends.
type hop struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Micros is how long it took.
	Micros int64  `json:"micros"`
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error,omitempty"`
}

// hops collects them; steps are reported by several goroutines.
type hops struct {
	mu  sync.Mutex
	all []hop
}

// add times f, and reports whether it went well.
func (h *hops) add(name string, f func() (string, error)) error {
	began := time.Now()
	detail, err := f()
	h.put(name, time.Since(began), detail, err)
	return err
}

func (h *hops) put(name string, took time.Duration, detail string, err error) {
	out := hop{Name: name, OK: err == nil, Micros: took.Microseconds(), Detail: detail}
	if err != nil {
		out.Error = err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, out)
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
	err = h.add("DNS", func() (string, error) {
		addrs, err := net.DefaultResolver.LookupHost(ctx, host)
		return strings.Join(addrs, " "), err
	})
	if err != nil {
		return err
	}
	var conn net.Conn
	err = h.add("TCP", func() (string, error) {
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
	return h.add("TLS", func() (string, error) {
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
	name, detail := string(r.Step), ""
	switch r.Step {
	case harness.StepRegistry:
		status, is := errors.AsType[*registry.StatusError](r.Err)
		if is && status.Code == registry.CodeOffline {
			h.put("registry", r.Took, "", nil)
			h.put("executor attached", 0, "", r.Err)
			return
		}
		h.put("registry", r.Took, "", r.Err)
		if r.Err == nil {
			h.put("executor attached", 0, "", nil)
		}
		return
	case harness.StepKey:
		name = "executor's key"
	case harness.StepUpgrade:
		name = "rendezvous"
	case harness.StepHandshake:
		detail = "both ends are certain of each other"
		if r.Err != nil {
			detail = ""
		}
	}
	h.put(name, r.Took, detail, r.Err)
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
	h := &hops{}
	defer func() { c.Hops = h.all }()
	if err := h.network(ctx, u.Registry, secure); err != nil {
		return err
	}
	opts := client.Options{Relay: client.RelayOptions{OnStep: h.step}}
	if err := c.measureServer(ctx, a, flags, opts); err != nil {
		return err
	}
	h.put("round trip", micros(c.Median), fmt.Sprintf("p50 of %d", roundTrips), nil)
	return nil
}

// hopsText is the hops for a person.
func hopsText(all []hop) string {
	var b strings.Builder
	for _, h := range all {
		status, text := "ok", h.Detail
		if !h.OK {
			status, text = "FAIL", h.Error
		}
		fmt.Fprintf(&b, "%-5s %-18s %10v  %s\n", status, h.Name, micros(h.Micros), text)
	}
	return b.String()
}
