package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/server"
)

// A server covers the token that the environment names, also if it serves over no relay.
func TestSH5TokenFileOfTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "T")
	t.Setenv(envTokenFile, file)
	if own := new(serveOptions).private().own; !slices.Contains(own, file) {
		t.Errorf("%s is not among %s", file, own)
	}
}

// A relay covers the files by which it logs in to NATS, beside those that flags name.
func TestSH5FilesOfARelay(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for state, want := range map[string][]string{
		"nats://h?user=u&password_file=DIR/1":         {"1"},
		"tls://h?creds=DIR/1&cert=DIR/cert&key=DIR/2": {"1", "2"},
		"nats://h,h2?nkey=DIR/1&ca=DIR/cert":          {"1"},
		"nats://h":                                    nil,
		"sqlite:DIR/1":                                {"1", "1-wal", "1-shm", "1-journal", "1.lock", "1.reserve"},
	} {
		place, err := parseState(strings.ReplaceAll(state, "DIR", dir))
		if err != nil {
			t.Fatal(err)
		}
		o := relayOptions{auditLog: file("audit"), tls: server.TLSFiles{Cert: file("cert"), Key: file("key")}}
		own := o.private(place).own
		for _, name := range append(want, "audit", "key") {
			if !slices.Contains(own, file(name)) {
				t.Errorf("%s: %s is not among %s", state, name, own)
			}
		}
		if slices.Contains(own, file("cert")) {
			t.Errorf("%s: a certificate is among %s", state, own)
		}
	}
}
