package sandbox

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// Config is what an Enforcer may be told; the zero value works.
type Config struct {
	// Logger is told of helpers that fail. nil discards.
	Logger *slog.Logger
	// Role is the role of Main that serves fs/*; empty means "fs".
	Role string
	// Private returns what no sandbox gives access to. It is asked whenever one is made.
	// nil is nothing.
	Private func() []PrivatePath
	// Alias returns a directory that policies may call by another name than the system
	// does. nil is none.
	Alias func() Alias

	// force, for tests, allows one way of confining only: "user", "root", "landlock"
	// or "none".
	force string
}

// An Enforcer confines processes (it is a process.Launcher) and file operations (it is
// an fs.Sandboxer). Its binary must call Main.
type Enforcer struct {
	cfg  Config
	wg   sync.WaitGroup // helpers, and sandboxes that hold masks
	stop chan struct{}  // closed by Close
	once sync.Once
	ways ways

	grace time.Duration // closeGrace, but in tests

	private realPaths
}

// closeGrace is how long Close waits for sandboxes whose processes are being killed.
const closeGrace = 2 * time.Second

// New makes an Enforcer.
func New(cfg Config) *Enforcer {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Role == "" {
		cfg.Role = "fs"
	}
	e := &Enforcer{cfg: cfg, stop: make(chan struct{}), grace: closeGrace}
	if cfg.Private != nil {
		_ = e.private.mounts.open() // or the first request does
	}
	return e
}

// Close ends the helpers that serve fs/* and waits for them. It gives sandboxes with
// processes two seconds to end; the empty directories of one that does not remain.
func (e *Enforcer) Close() error {
	e.once.Do(func() { close(e.stop) })
	e.wg.Wait()
	e.private.close()
	return nil
}

// Direct reports whether fs/* may be served by this process: s does not restrict the
// file system. Under any other policy a read would be of this process's /proc/self, and
// with its capabilities.
func (e *Enforcer) Direct(s *protocol.Sandbox) (bool, error) {
	if s == nil {
		return true, nil
	}
	p, err := Resolve(s, fileContext())
	if err != nil {
		return false, fileError(err)
	}
	return p.Unconfined, nil
}

// fileContext is that of fs/*: the server's own environment, and no directory.
func fileContext() Context { return Context{TempDir: os.Getenv("TMPDIR")} }

// lookup returns the value of a variable in an environment, the last one given.
func lookup(env []string, name string) string {
	value := ""
	for _, pair := range env {
		if v, is := strings.CutPrefix(pair, name+"="); is {
			value = v
		}
	}
	return value
}
