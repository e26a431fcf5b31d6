//go:build interop

package computer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// versions are those of npm's @cloudflare/computer, as the Makefile has them.
var versions = []string{"0.2.1", "0.3.1", "0.6.0", "0.8.0"}

// Each version of the client passes the same checks, all of them against one server.
func TestClients(t *testing.T) {
	w := newWsd(t, "")
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			script(t, nil, "checks.mjs", filepath.Join(named(t, "COMPUTER_DIR"), v), w.url(), "v"+v)
		})
	}
}

// Files are overwritten in the workspace between the client's calls: between its list and its
// fetch, and between its question what is there and its push.
func TestOverwritten(t *testing.T) {
	w := newWsd(t, "")
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			script(t, nil, "overwritten.mjs", filepath.Join(named(t, "COMPUTER_DIR"), v), w.url(), w.dir, "v"+v)
		})
	}
}

// A pack of 20,001 entries, from the client that sends packs.
func TestLargePack(t *testing.T) {
	w := newWsd(t, "")
	script(t, nil, "pack.mjs", filepath.Join(named(t, "COMPUTER_DIR"), versions[len(versions)-1]), w.url())
}

// A client goes on with a server that was killed and started again, with its store and
// with another one; then everything is pushed again.
func TestRestart(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			w := newWsd(t, "")
			script(t, func(line string) error {
				if line != "restart" && line != "lose the store" {
					return errors.New("what is that")
				}
				if err := w.end(syscall.SIGKILL); err != nil {
					return err
				}
				if line == "lose the store" {
					if err := w.forget(); err != nil {
						return err
					}
				}
				w.start()
				return nil
			}, "restart.mjs", filepath.Join(named(t, "COMPUTER_DIR"), v), w.url())
		})
	}
}

// forget makes the server lose its store and its workspace.
func (w *wsd) forget() error {
	for _, dir := range []string{w.dir, w.state} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("forget: %w", err)
			}
		}
	}
	return nil
}

// The sessions of npm's capnweb, of each level, without the client around them.
func TestRawSessions(t *testing.T) {
	w := newWsd(t, "")
	for _, v := range []string{"8", "10", "12"} {
		t.Run(v, func(t *testing.T) {
			script(t, nil, "raw.mjs", named(t, "CAPNWEB_DIR"), "capnweb-"+v, w.url())
		})
	}
}

// The way of production: a Durable Object in workerd that has the server dial it.
func TestDurableObject(t *testing.T) {
	const secret = "00112233445566778899aabbccddeeff"
	w := newWsd(t, secret, "MOUNT_IGNORE=**/node_modules/,**/.cache")
	script(t, nil, "durable.mjs", named(t, "MINIFLARE_DIR"), filepath.Join(named(t, "COMPUTER_DIR"), "0.8.0"), w.url(), secret)
}
