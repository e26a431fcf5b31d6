package registry_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/relay/registry"
)

// https with a private authority, named in any of the three ways, and not without.
func TestPrivateAuthority(t *testing.T) {
	f := new(fake)
	f.Server = httptest.NewTLSServer(f.record(t, reply(200, registered())))
	t.Cleanup(f.Close)
	f.Config.ErrorLog = nil
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"WSD_CA_CERTIFICATE", "CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", ""} {
		conf, err := registry.TLSConfig(func(n string) string {
			if n == name {
				return path
			}
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := registry.New(registry.Config{BaseURLs: []string{f.URL}, TLSConfig: conf})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Register(t.Context(), "lab", newKey(t))
		if (err == nil) != (name != "") {
			t.Errorf("%q: %v", name, err)
		}
		c.Close()
	}
}

func TestBadAuthorities(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, empty + ".missing"} {
		if _, err := registry.TLSConfig(func(string) string { return path }); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
}
