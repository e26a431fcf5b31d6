package computer

import (
	"log/slog"
	"sync"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
)

// Config is what a Computer is made of. Peer and Runs are required.
type Config struct {
	Peer changes.Peer
	Runs shell.Runs
	// MountPoint is where the workspace stands among the paths of the protocol. "" is
	// /workspace.
	MountPoint string
	// Hidden are the names that hide a path of which they are a segment from clients that
	// do not say what they want hidden. nil follows the path dialled: on /ws, the address of
	// the first clients, it is changes.DefaultIgnore, elsewhere none.
	Hidden []string
	// Version is what /__computerd/info calls this program.
	Version string
	// Place tells a client on the same machine which directory the workspace is; nil for
	// nothing.
	Place *protocol.WorkspacePlace
	// MaxSessions bounds the sessions; 0 means the constant of that name.
	MaxSessions int
	// Logger is told of sessions, and of errors that clients are not told. nil discards.
	Logger *slog.Logger
}

// A Computer serves its Config's workspace and runs.
type Computer struct {
	cfg     Config
	log     *slog.Logger
	batches chan struct{} // holds a token for each batch

	mu        sync.Mutex
	sessions  map[*session]struct{}
	followers map[string]*follower // by the run that is followed
	connect   *attempt             // the latest /connect
	upstream  *session             // with the host that was dialled last
}

// New makes a Computer. Its Routes make it reachable.
func New(cfg Config) *Computer {
	if cfg.MountPoint == "" {
		cfg.MountPoint = "/workspace"
	}
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = MaxSessions
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Computer{
		cfg: cfg, log: cfg.Logger, batches: make(chan struct{}, MaxBatches),
		sessions: map[*session]struct{}{}, followers: map[string]*follower{},
	}
}

// Sessions counts the sessions.
func (c *Computer) Sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}
