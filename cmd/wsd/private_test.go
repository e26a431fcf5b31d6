package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/sqlite"
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
		"sqlite:DIR/1":                                {"1", "1-wal", "1-shm", "1-journal", "1.lock", "1.reserve", "1.objects"},
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

// The content beside a store is covered, also when its directory is there before the server names
// it, and also for the sandboxes of other programs, which read it in a runtime file.
func TestSH6ObjectsOfAStoreElsewhere(t *testing.T) {
	for name, exists := range map[string]bool{"there": true, "not yet": false} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			for _, variable := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
				t.Setenv(variable, filepath.Join(base, "home"))
			}
			store := filepath.Join(base, "elsewhere", "s.db")
			objects := sqlite.ObjectsPath(store)
			if exists {
				if err := os.MkdirAll(objects, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			covers := func(p *privatePaths) bool {
				return slices.ContainsFunc(p.list(), func(path sandbox.PrivatePath) bool { return path.Path == objects })
			}
			server := newPrivatePaths()
			server.addStore(store)
			if !covers(server) {
				t.Errorf("%s is not among %v", objects, server.own)
			}
			dir, err := userRuntimeDir()
			if err != nil {
				t.Fatal(err)
			}
			// An executor of a relay names its files only.
			reg, err := dir.register(runningServer{PID: os.Getpid(), StartedAt: time.Now(), Private: server.own})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(objects, 0o700); err != nil {
				t.Fatal(err)
			}
			if !covers(newPrivatePaths()) {
				t.Errorf("%s is not among the paths of another server", objects)
			}
			if err := reg.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// No sandbox gives access to the audit log.
func TestAuditLogIsPrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := new(serveOptions)
	o.history.audit = file
	if own := o.private().own; !slices.Contains(own, file) {
		t.Errorf("%v are private", own)
	}
}
