package registry

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// CheckEnvironmentID says whether id is one: 1 to MaxEnvironmentID of A-Z a-z 0-9 _
// and -. It goes into paths as it is.
func CheckEnvironmentID(id string) error {
	switch {
	case id == "":
		return errors.New("the environment id is empty")
	case len(id) > MaxEnvironmentID:
		return fmt.Errorf("the environment id is longer than %d characters", MaxEnvironmentID)
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return fmt.Errorf("environment id %q: %q is not allowed; use letters, digits, _ and -", id, r)
		}
	}
	return nil
}

// Loopback reports whether the host of u is this machine: localhost, 127.0.0.0/8, ::1.
func Loopback(u *url.URL) bool {
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// ParseBaseURL reads the base URL of a registry and takes trailing slashes away. It
// has neither a query (the path comes after it) nor a user nor a fragment.
func ParseBaseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		// url's own error repeats the text, which may hold a password.
		return nil, errors.New("registry URL: not a URL")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("registry URL: the scheme must be https, or http on this machine, not %q", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("registry URL: no host")
	case u.User != nil:
		return nil, errors.New("registry URL: no user or password may be in it; give the token by itself")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("registry URL: it must not have a query")
	case u.Fragment != "":
		return nil, errors.New("registry URL: it must not have a fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// CheckRendezvousURL says whether raw, which a registry gave, may be dialled: wss, or
// ws on loopback, since the URL is a credential. The error does not repeat it.
func CheckRendezvousURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("the rendezvous URL is none")
	case u.Hostname() == "":
		return errors.New("the rendezvous URL has no host")
	case u.Scheme == "wss", u.Scheme == "ws" && Loopback(u):
		return nil
	case u.Scheme == "ws":
		return fmt.Errorf("the rendezvous URL is ws to %s, which is not this machine: it must be wss", host(u))
	default:
		return fmt.Errorf("the rendezvous URL has the scheme %q: it must be wss", u.Scheme)
	}
}

// hereError says that a registry elsewhere names this machine.
func hereError(what string) error {
	return fmt.Errorf("the rendezvous URL leads to %s, which is this machine or its link, and the registry is not on this machine: it must not make us connect there", what)
}

// CheckAddress refuses addresses of this machine and of its link, which a registry on
// another machine must not make anybody connect to.
func CheckAddress(addr netip.Addr) error {
	if a := addr.Unmap(); a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() {
		return hereError(addr.String())
	}
	return nil
}

// checkElsewhere does so for what a rendezvous URL says; what its name resolves to is for
// CheckAddress.
func checkElsewhere(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("the rendezvous URL is none")
	}
	name := strings.ToLower(strings.TrimRight(u.Hostname(), "."))
	if addr, err := netip.ParseAddr(name); err == nil {
		return CheckAddress(addr)
	}
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return hereError(clean(host(u), maxMessage))
	}
	// Resolvers take 2130706433, 127.1 and 0x7f.1 for addresses.
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return fmt.Errorf("the rendezvous URL leads to %s, which is neither a name nor an address in its usual form", clean(host(u), maxMessage))
	}
	return nil
}

// host is the host of u with its port, for messages.
func host(u *url.URL) string {
	if port := u.Port(); port != "" {
		return net.JoinHostPort(u.Hostname(), port)
	}
	return u.Hostname()
}
