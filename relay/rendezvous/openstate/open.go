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

// Open opens the state that value names:
//
//	""            the file relay.db in the directory that Directory returns
//	sqlite:PATH   a file; see package sqlstate
//	nats://...    a NATS cluster, also tls://...; see natsstate.ParseURL
//	memory:       nothing that outlives the process
//
// A bare path is refused with a hint. Errors never repeat a password.
func Open(ctx context.Context, value string, logger *slog.Logger) (rendezvous.State, error) {
	if natsstate.IsURL(value) {
		cfg, err := natsstate.ParseURL(value)
		if err != nil {
			return nil, err
		}
		cfg.Logger = logger
		return natsstate.Open(ctx, cfg)
	}
	if value == "" {
		dir, err := Directory()
		if err != nil {
			return nil, err
		}
		return sqlstate.Open(ctx, sqlstate.Config{Path: filepath.Join(dir, "relay.db"), Logger: logger})
	}
	engine, rest, _ := strings.Cut(value, ":")
	switch engine {
	case "sqlite":
		if rest == "" {
			return nil, errors.New(`a state "sqlite:" needs a path, as in "sqlite:/var/lib/wsd/relay.db"`)
		}
		return sqlstate.Open(ctx, sqlstate.Config{Path: rest, Logger: logger})
	case "memory":
		if rest != "" {
			return nil, errors.New(`a state in memory is written "memory:"`)
		}
		return rendezvous.NewMemory(), nil
	}
	if strings.ContainsAny(value, "/\\") && !strings.Contains(value, "://") {
		return nil, fmt.Errorf(`a state in a file is written "sqlite:%s"`, value)
	}
	return nil, fmt.Errorf("a state is %s", Forms)
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
