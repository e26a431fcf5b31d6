package openstate

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
	"github.com/wsd-dev/wsd/relay/rendezvous/sqlstate"
)

func TestOpen(t *testing.T) {
	home := t.TempDir()
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", home)
	cluster := natstest.Start(t, 1)
	path := filepath.Join(t.TempDir(), "deep", "relay.db")
	for _, tt := range []struct {
		value, file string
		is          func(rendezvous.State) bool
	}{
		{"", filepath.Join(home, "wsd", "relay.db"), isA[*sqlstate.State]},
		{"sqlite:" + path, path, isA[*sqlstate.State]},
		{cluster.URL(), "", isA[*natsstate.State]},
		{"memory:", "", isA[*rendezvous.Memory]},
	} {
		place, err := Parse(tt.value)
		if err != nil {
			t.Errorf("%q: %v", tt.value, err)
			continue
		}
		if place.File != tt.file {
			t.Errorf("%q is in %q, want %q", tt.value, place.File, tt.file)
		}
		s, err := place.Open(t.Context(), nil)
		if err != nil {
			t.Errorf("%q: %v", tt.value, err)
			continue
		}
		defer s.Close()
		if !tt.is(s) {
			t.Errorf("%q: %T", tt.value, s)
		}
		if _, err := s.Put(t.Context(), rendezvous.BucketTokens, "k", []byte("v"), 0); err != nil {
			t.Errorf("%q: %v", tt.value, err)
		}
		if _, err := os.Stat(tt.file); tt.file != "" && err != nil {
			t.Errorf("%q: %v", tt.value, err)
		}
	}
}

func isA[T rendezvous.State](s rendezvous.State) bool { _, ok := s.(T); return ok }

func TestParseRefuses(t *testing.T) {
	for value, says := range map[string]string{
		"sqlite:":                   "needs a path",
		"memory:x":                  `"memory:"`,
		"/var/lib/relay.db":         `"sqlite:/var/lib/relay.db"`,
		"relay.db":                  "sqlite:PATH",
		"postgres://u:hunter2@h/db": "sqlite:PATH",
		"nats://u:hunter2@h:x":      "host and port",
	} {
		if _, err := Parse(value); err == nil {
			t.Errorf("%q is taken", value)
		} else if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	home := t.TempDir()
	for _, tt := range []struct{ state, xdg, home, want string }{
		{"/var/lib/wsd", "/xdg", home, "/var/lib/wsd"},
		{"/var/lib/wsd:/other", "/xdg", home, "/var/lib/wsd"},
		{"relative", "/xdg", home, "/xdg/wsd"},
		{"", "relative", home, filepath.Join(home, map[bool]string{true: "Library/Application Support", false: ".local/state"}[runtime.GOOS == "darwin"], "wsd")},
		{"", "", "", ""},
	} {
		t.Setenv("STATE_DIRECTORY", tt.state)
		t.Setenv("XDG_STATE_HOME", tt.xdg)
		t.Setenv("HOME", tt.home)
		got, err := Directory()
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--state") {
			t.Errorf("no hint: %v", errors.Unwrap(err))
		}
	}
}
