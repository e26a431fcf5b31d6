package client

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay/registry"
)

const somePrint = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"

func TestParseRelayURL(t *testing.T) {
	for _, tt := range []struct{ url, registry, env, name string }{
		{"relay://relay.example/lab", "https://relay.example", "lab", "relay.example/lab"},
		{"relay://Relay.Example:443/lab", "https://relay.example:443", "lab", "relay.example/lab"},
		{"RELAY://relay.example:8443/a/b/lab", "https://relay.example:8443/a/b", "lab", "relay.example:8443/a/b/lab"},
		{"relay://relay.example//lab", "https://relay.example", "lab", "relay.example/lab"},
		{"relay://localhost:9000/lab", "http://localhost:9000", "lab", "localhost:9000/lab"},
		{"relay://127.0.0.3/lab_1-A", "http://127.0.0.3", "lab_1-A", "127.0.0.3:80/lab_1-A"},
		{"relay://[::1]:9/lab", "http://[::1]:9", "lab", "[::1]:9/lab"},
		{"relay://[2001:db8::1]/lab", "https://[2001:db8::1]", "lab", "[2001:db8::1]/lab"},
		{"relay+https://localhost/lab", "https://localhost", "lab", "localhost/lab"},
		{"relay+http://localhost/x/lab", "http://localhost/x", "lab", "localhost:80/x/lab"},
		{"relay://h/lab#" + somePrint, "https://h", "lab", "h/lab"},
	} {
		got, err := ParseRelayURL(tt.url)
		want := RelayURL{Registry: tt.registry, EnvironmentID: tt.env, Name: tt.name}
		if strings.Contains(tt.url, "#") {
			want.Pin = somePrint
		}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", tt.url, got, err, want)
		}
		if !IsRelayURL(tt.url) {
			t.Errorf("%s is not taken for a relay's", tt.url)
		}
	}
	for _, tt := range []struct{ url, want string }{
		{"", "scheme"},
		{"ws://h/lab", "scheme"},
		{"relay://h", "no environment"},
		{"relay://h/", "no environment"},
		{"relay://h/lab/", "no environment"},
		{"relay:lab", "no host"},
		{"relay:///lab", "no host"},
		{"relay://:80/lab", "no host"},
		{"relay://h/l%61b", "not allowed"},
		{"relay://h/..", "not allowed"},
		{"relay://h/lab?x=1", "query"},
		{"relay://h/lab?", "query"},
		{"relay://me:secret@h/lab", "password"},
		{"relay://me:sec%ret@h/lab", "not a URL"},
		{"relay://h/lab#SHA256:x", "wsd fingerprint"},
		{"relay://h/lab#", "wsd fingerprint"},
		{"relay://h/lab#" + somePrint[:49] + "F", "wsd fingerprint"},
		{"relay+http://relay.example/lab", "not this machine"},
		{"relay://h/" + strings.Repeat("x", maxRelayURL), "longer"},
	} {
		_, err := ParseRelayURL(tt.url)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: got %v, want %q", tt.url, err, tt.want)
		}
	}
	for _, url := range []string{"ws://relay/x", "relay", "relays://h/x", "relay+ws://h/x", ""} {
		if IsRelayURL(url) {
			t.Errorf("%s is taken for a relay's", url)
		}
	}
}

// What is taken can be asked, and never without TLS anywhere but on this machine.
func FuzzParseRelayURL(f *testing.F) {
	f.Add("relay://relay.example:8443/a/b/lab#" + somePrint)
	f.Add("relay+http://[::1]:9/lab")
	f.Add("relay://h%2f/l/%2e%2e/x")
	f.Add("relay://h\x80\xff:/lab")
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := ParseRelayURL(raw)
		if err != nil {
			return
		}
		if !IsRelayURL(raw) {
			t.Fatalf("%q is not taken for a relay's", raw)
		}
		base, err := registry.ParseBaseURL(got.Registry)
		if err != nil {
			t.Fatalf("%q: registry %q: %v", raw, got.Registry, err)
		}
		if base.Scheme != "https" && !registry.Loopback(base) {
			t.Fatalf("%q goes to %q", raw, got.Registry)
		}
		if registry.CheckEnvironmentID(got.EnvironmentID) != nil || !strings.HasSuffix(got.Name, "/"+got.EnvironmentID) {
			t.Fatalf("%q: %+v", raw, got)
		}
	})
}
