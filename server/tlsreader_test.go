package server

import (
	"crypto/tls"
	"os"
	"strings"
	"testing"
	"time"
)

// A renewed certificate is in force from the next handshake on; files that cannot be
// used leave the old one there, until they can.
func TestChangedTLSFiles(t *testing.T) {
	w := newWorld(t, Config{})
	first, second := newAuthority(t), newAuthority(t)
	files := first.server("")
	e, err := w.Listen(EndpointConfig{URL: "wss://127.0.0.1:0", TLS: files})
	if err != nil {
		t.Fatal(err)
	}
	w.run(e)
	in := func(force *authority) {
		t.Helper()
		for _, a := range []*authority{first, second} {
			c, err := tls.Dial("tcp", strings.TrimPrefix(e.URL(), "wss://"), &tls.Config{RootCAs: a.pool})
			if err == nil {
				c.Close()
			}
			if (err == nil) != (a == force) {
				t.Fatalf("the certificate in force is another: %v", err)
			}
		}
	}
	clock := time.Now()
	replace := func(name, by string) {
		t.Helper()
		data, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
		clock = clock.Add(time.Second) // however coarse the file system's is
		if err == nil {
			err = os.Chtimes(name, clock, clock)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in(first)
	cert, key := second.pair()
	replace(files.Cert, cert) // and the key not yet
	in(first)
	replace(files.Key, key)
	in(second)
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	in(second)
	cert, key = first.pair()
	replace(files.Cert, cert)
	replace(files.Key, key)
	in(first)
}
