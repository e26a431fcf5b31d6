package openstate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate"
	"github.com/wsd-dev/wsd/relay/rendezvous/sqlstate"
)

// Forms of a --state value, for a usage text.
const Forms = `"sqlite:PATH", "nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][?OPTIONS]" or "memory:"`

// A Place is where a --state value says that the state is.
type Place struct {
	// File is the path of a file, "" if it is in none.
	File string

	nats *natsstate.Config // nil if it is not in NATS
}

// Parse reads a --state value:
//
//	""            the file relay.db in the directory that Directory returns
//	sqlite:PATH   a file; see package sqlstate
//	nats://...    a NATS cluster, also tls://...; see natsstate.ParseURL
//	memory:       nothing that outlives the process
//
// A bare path is refused with a hint. Errors never repeat a password.
func Parse(value string) (Place, error) {
	if natsstate.IsURL(value) {
		cfg, err := natsstate.ParseURL(value)
		return Place{nats: &cfg}, err
	}
	if value == "" {
		dir, err := Directory()
		return Place{File: filepath.Join(dir, "relay.db")}, err
	}
	engine, rest, _ := strings.Cut(value, ":")
	switch engine {
	case "sqlite":
		if rest == "" {
			return Place{}, errors.New(`a state "sqlite:" needs a path, as in "sqlite:/var/lib/wsd/relay.db"`)
		}
		return Place{File: rest}, nil
	case "memory":
		if rest != "" {
			return Place{}, errors.New(`a state in memory is written "memory:"`)
		}
		return Place{}, nil
	}
	if strings.ContainsAny(value, "/\\") && !strings.Contains(value, "://") {
		return Place{}, fmt.Errorf(`a state in a file is written "sqlite:%s"`, value)
	}
	return Place{}, fmt.Errorf("a state is %s", Forms)
}

// Open opens the state that is there, and makes it if there is none.
func (p Place) Open(ctx context.Context, logger *slog.Logger) (rendezvous.State, error) {
	switch {
	case p.nats != nil:
		cfg := *p.nats
		cfg.Logger = logger
		return natsstate.Open(ctx, cfg)
	case p.File != "":
		return sqlstate.Open(ctx, sqlstate.Config{Path: p.File, Logger: logger})
	}
	return rendezvous.NewMemory(), nil
}

// Secrets are the files that a NATS address names for logging in. Names may be empty.
func (p Place) Secrets() []string {
	if p.nats == nil {
		return nil
	}
	return []string{p.nats.PasswordFile, p.nats.CredentialsFile, p.nats.NKeyFile, p.nats.KeyFile}
}

// Directory is where the state of a relay belongs that is not told otherwise: what the
// service manager gives ($STATE_DIRECTORY, of systemd's StateDirectory=), or wsd below the
// user's directory for state ($XDG_STATE_HOME, ~/.local/state; on macOS
// ~/Library/Application Support). It need not exist.
func Directory() (string, error) {
	// Several are separated by colons; the first is as good as any.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "wsd"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the relay's state is not known: %w; say --state sqlite:PATH", err)
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "wsd"), nil
	}
	return filepath.Join(home, ".local", "state", "wsd"), nil
}
