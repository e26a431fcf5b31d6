package registry_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay/registry"
)

// roundTrip answers as a registry anywhere.
type roundTrip http.HandlerFunc

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	f(rec, r)
	return rec.Result(), nil
}

// asks registers and connects at a registry at base that names rendezvous.
func asks(t *testing.T, base, rendezvous string, transport http.RoundTripper) error {
	t.Helper()
	key := newKey(t)
	if transport == nil {
		transport = roundTrip(reply(200, registry.ConnectResponse{
			EnvironmentID: "lab", URL: rendezvous, SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: "r",
			ExecutorPublicKey: key, HarnessKeyAuthorization: "a",
		}))
	}
	c, err := registry.New(registry.Config{BaseURLs: []string{base}, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	_, atRegister := c.Register(t.Context(), "lab", key)
	_, atConnect := c.Connect(t.Context(), "lab", key)
	if (atRegister == nil) != (atConnect == nil) {
		t.Errorf("%s: register says %v, connect %v", rendezvous, atRegister, atConnect)
	}
	return atConnect
}

// S-R11: a registry elsewhere does not make anybody connect to their own machine or link.
func TestSR11RendezvousHere(t *testing.T) {
	here := []string{
		"127.0.0.1", "127.9.8.7:9200", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "0.0.0.0", "[::]", "169.254.169.254", "[fe80::1]", "[fe80::1%25eth0]",
		"2130706433", "127.1", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.",
	}
	for _, host := range here {
		if err := asks(t, "https://relay.example", "wss://"+host+"/relay", nil); err == nil {
			t.Errorf("%s is taken", host)
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		if err := asks(t, "https://relay.example", "ws://"+host+"/relay", nil); err == nil {
			t.Errorf("ws to %s is taken", host)
		}
		if err := asks(t, "http://127.0.0.1:1", "ws://"+host+"/relay", nil); err != nil {
			t.Errorf("%s of a registry here: %v", host, err)
		}
	}
	for _, host := range []string{"relay.example", "relay2.example:8443", "203.0.113.7", "10.1.2.3", "[2001:db8::1]", "localhost.example"} {
		if err := asks(t, "https://relay.example", "wss://"+host+"/relay", nil); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// A registry whose name leads to this machine is on it.
func TestRendezvousOfARegistryHereByName(t *testing.T) {
	f := serve(t, reply(200, registry.ConnectResponse{
		EnvironmentID: "lab", URL: "ws://127.0.0.1:1/relay", SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: "r",
		ExecutorPublicKey: newKey(t), HarnessKeyAuthorization: "a",
	}))
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(f.URL, "http://"))
	}}
	defer transport.CloseIdleConnections()
	if err := asks(t, "http://relay.example", "", transport); err != nil {
		t.Error(err)
	}
}

// S-R11: a redirect is no way around it.
func TestSR11Redirects(t *testing.T) {
	reached := false
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { reached = true; w.WriteHeader(500) })
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	if _, err := client(t, f.URL).Connect(t.Context(), "lab", newKey(t)); err == nil || reached {
		t.Errorf("reached: %v, %v", reached, err)
	}
}
