package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// Schemes of relay URLs. The first means https, or http on this machine.
const (
	schemeRelay      = "relay"
	schemeRelayHTTPS = "relay+https"
	schemeRelayHTTP  = "relay+http"
)

// maxRelayURL bounds a relay URL, in bytes.
const maxRelayURL = 4 << 10

// A RelayURL says which executor, behind which relay:
//
//	relay://HOST[:PORT][/PREFIX]/ENVIRONMENT[#FINGERPRINT]
//
// The registry is asked over https; over http if HOST is this machine. relay+https and
// relay+http say it outright, the latter for this machine only, as a token goes there.
type RelayURL struct {
	// Registry is the base URL of the registry, without a slash at its end.
	Registry string
	// EnvironmentID is the executor's.
	EnvironmentID string
	// Pin is the fingerprint that the executor's key must have, "" if none is said.
	Pin string
	// Name is what the executor is called in a file of known executors: HOST, the port
	// unless it is that of https, prefix and environment.
	Name string
}

// IsRelayURL reports whether the scheme of rawURL is one of a relay.
func IsRelayURL(rawURL string) bool {
	scheme, _, found := strings.Cut(rawURL, ":")
	switch strings.ToLower(scheme) {
	case schemeRelay, schemeRelayHTTPS, schemeRelayHTTP:
		return found
	}
	return false
}

// errRelayForm is how to do it right.
var errRelayForm = errors.New("write relay://HOST[:PORT]/ENVIRONMENT")

// ParseRelayURL reads a relay URL.
func ParseRelayURL(rawURL string) (RelayURL, error) {
	if len(rawURL) > maxRelayURL {
		return RelayURL{}, fmt.Errorf("relay URL: longer than %d bytes", maxRelayURL)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return RelayURL{}, fmt.Errorf("relay URL: not a URL; %w", errRelayForm) // which may hold a password
	}
	base := &url.URL{Host: strings.ToLower(u.Host)}
	switch u.Scheme {
	case schemeRelay:
		base.Scheme = "https"
		if registry.Loopback(u) {
			base.Scheme = "http"
		}
	case schemeRelayHTTPS:
		base.Scheme = "https"
	case schemeRelayHTTP:
		base.Scheme = "http"
		if !registry.Loopback(u) {
			return RelayURL{}, fmt.Errorf("relay URL: %s is not this machine, and a token is not sent without TLS; write relay+https://", u.Host)
		}
	default:
		return RelayURL{}, fmt.Errorf("relay URL: the scheme is %q; %w", u.Scheme, errRelayForm)
	}
	switch {
	case u.User != nil:
		return RelayURL{}, errors.New("relay URL: no user or password may be in it; give the token by itself")
	case u.Hostname() == "":
		return RelayURL{}, fmt.Errorf("relay URL: no host; %w", errRelayForm)
	case u.RawQuery != "" || u.ForceQuery:
		return RelayURL{}, fmt.Errorf("relay URL: it must not have a query; %w", errRelayForm)
	}

	path := u.EscapedPath()
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 || path[cut+1:] == "" {
		return RelayURL{}, fmt.Errorf("relay URL: no environment after the host; %w", errRelayForm)
	}
	out := RelayURL{EnvironmentID: path[cut+1:]}
	if err := registry.CheckEnvironmentID(out.EnvironmentID); err != nil {
		return RelayURL{}, fmt.Errorf("relay URL: %w", err)
	}
	prefix := strings.TrimRight(path[:cut], "/")
	out.Registry = base.String() + prefix
	if _, err := registry.ParseBaseURL(out.Registry); err != nil {
		return RelayURL{}, fmt.Errorf("relay URL: %q is not a host; %w", u.Host, errRelayForm)
	}
	out.Name = executorHost(base) + prefix + "/" + out.EnvironmentID
	// An empty fragment is a pin that somebody forgot to fill in.
	if _, pin, found := strings.Cut(rawURL, "#"); found {
		if out.Pin, err = parsePin(pin); err != nil {
			return RelayURL{}, fmt.Errorf("relay URL: what comes after #: %w", err)
		}
	}
	return out, nil
}

// parsePin checks what a person gave for a fingerprint.
func parsePin(text string) (string, error) {
	print, err := seal.ParseFingerprint(text)
	if err != nil {
		return "", fmt.Errorf("%w; give what `wsd fingerprint` prints at the executor", err)
	}
	return print.String(), nil
}

// executorHost is the host with its port, unless that is the port of https.
func executorHost(base *url.URL) string {
	port := base.Port()
	switch {
	case port == "" && base.Scheme == "http":
		port = "80"
	case port == "443" && base.Scheme == "https":
		port = ""
	}
	switch host := base.Hostname(); {
	case port != "":
		return net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	default:
		return host
	}
}
