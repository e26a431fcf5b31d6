package execserver

import (
	"log/slog"
	"os"
	"time"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/history"
	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/discovery"
	"github.com/wsd-dev/wsd/server/environment"
	"github.com/wsd-dev/wsd/server/httprequest"
	"github.com/wsd-dev/wsd/server/workspace"
)

// Config is what a server may be told; the zero value works.
type Config struct {
	// Version is the executorVersion that clients are told.
	Version string
	// Cwd is the directory that clients are told is served; the process's own when
	// empty. Nothing is confined to it.
	Cwd string
	// SessionGrace, Concurrency and Observer are those of server.Config.
	SessionGrace time.Duration
	Concurrency  int
	Observer     server.Observer
	// ProcessRetention is how long a closed process stays readable; 0 means
	// protocol.ProcessRetention.
	ProcessRetention time.Duration
	// Budget is that of server.Config.
	Budget *rpc.Budget
	// Directory lists the processes of all sessions; nil means one of its own.
	Directory *process.Directory
	// Sandbox confines what clients want confined; nil refuses that. Confines says that
	// it can on this kind of system. Clients are then told that sandboxes are honoured
	// in file streams too; what this very machine cannot enforce is still refused.
	Sandbox  Sandbox
	Confines bool
	// Limiter holds commands to limits; nil refuses those that have some.
	Limiter *limit.Limiter
	// Workspace is served too; nil for none: then there are none of its methods. It is
	// the caller's to close, after the server.
	Workspace *workspace.Workspace
	// Recorder writes what the processes of a server without a Workspace do; nil for
	// nothing. It is the caller's to close, after the server.
	Recorder *eventlog.Recorder
	// NoHistory records nothing of the processes of sessions, and keeps from clients which
	// commands the server has run.
	NoHistory bool
	// Logger is told of the life of the server. nil discards.
	Logger *slog.Logger
}

// Sandbox confines processes and file operations. *sandbox.Sandbox does.
type Sandbox interface {
	process.Launcher
	fs.Sandboxer
}

// New makes a server of everything. It fails when the working directory is not known.
func New(cfg Config) (*server.Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Directory == nil {
		cfg.Directory = process.NewDirectory()
	}
	table := tableOf(cfg.Workspace != nil, cfg.history() != nil)
	var srv *server.Server // set before anything asks for the status
	env, err := environment.New(environment.Config{
		Version: cfg.Version, Cwd: cfg.Cwd, WorkspaceMount: mountPoint(cfg.Workspace), WorkspacePlace: place(&cfg),
		Capabilities:     environment.Capabilities(table.Names(), behaviours(cfg)...),
		SessionGrace:     grace(cfg.SessionGrace),
		ProcessRetention: retention(cfg.ProcessRetention),
		Draining:         func() bool { return srv.Draining() },
	})
	if err != nil {
		return nil, err
	}
	srv = server.New(server.Config{
		Table: table,
		NewSession: func(s *server.Session) []rpc.Service {
			return []rpc.Service{process.NewService(s, process.Config{
				SessionID: s.ID(), Logger: cfg.Logger, Retention: cfg.ProcessRetention, Directory: cfg.Directory, Sandbox: launcher(cfg.Sandbox), Limiter: cfg.Limiter,
				Mount: mount(cfg.Workspace), Recorder: cfg.history(), Durable: cfg.durable(), Client: s.Client,
			})}
		},
		NewConnection: func(n rpc.Notifier) []rpc.Service {
			more := workspaceServices(n, &cfg)
			files := fs.NewService(n, fs.Config{Sandbox: sandboxer(cfg.Sandbox), Logger: cfg.Logger})
			if rec := cfg.history(); rec != nil {
				more = append(more, history.NewService(rec))
			}
			return append([]rpc.Service{
				env, files, discovery.NewService(newFiles(files), discovery.Config{}), httprequest.NewService(n, httprequest.Config{Logger: cfg.Logger, LookupEnv: lookupEnv}),
			}, more...)
		},
		Info:         env.Info,
		SessionGrace: cfg.SessionGrace, Concurrency: cfg.Concurrency,
		Budget: cfg.Budget, Observer: cfg.Observer, Logger: cfg.Logger,
	})
	return srv, nil
}

// history returns what the processes of sessions are written to, and clients may list; nil
// for nothing.
func (c *Config) history() *eventlog.Recorder {
	switch {
	case c.NoHistory:
		return nil
	case c.Workspace != nil:
		return c.Workspace.Recorder
	}
	return c.Recorder
}

// durable reports whether the log of a process of a session outlives it.
func (c *Config) durable() bool { return c.Workspace != nil && !c.NoHistory }

// Table returns the methods of a server with a workspace and a history: all that there are.
func Table() *rpc.Table { return tableOf(true, true) }

func tableOf(workspace, recorded bool) *rpc.Table {
	t := rpc.NewTable()
	server.Register(t)
	environment.Register(t)
	process.Register(t)
	fs.Register(t)
	discovery.Register(t)
	httprequest.Register(t)
	if recorded {
		history.Register(t)
	}
	if workspace {
		registerWorkspace(t)
	}
	return t
}

// behaviours are the capabilities that stand for no method of their own.
func behaviours(cfg Config) []string {
	caps := []string{
		protocol.CapProcessSignals, protocol.CapProcessTimeout, protocol.CapProcessAttach, protocol.CapProcessJoin,
		protocol.CapFsConditional, protocol.CapFsAtomicWrites,
		protocol.CapHTTPHeaderEnvVars,
	}
	if cfg.Limiter != nil {
		caps = append(caps, protocol.CapProcessLimits)
	}
	if cfg.durable() {
		caps = append(caps, protocol.CapDurableLog)
	}
	if cfg.Sandbox != nil && cfg.Confines {
		caps = append(caps, protocol.CapSandboxedFileStreaming, protocol.CapCapabilityDiscoverySandbox)
	}
	return caps
}

// lookupEnv is os.LookupEnv for what requests may send: not the server's own secrets.
func lookupEnv(name string) (string, bool) {
	if process.OwnSecret(name) || name == workspace.SecretVariable {
		return "", false
	}
	return os.LookupEnv(name)
}

// launcher keeps a missing Sandbox a nil Launcher.
func launcher(s Sandbox) process.Launcher {
	if s == nil {
		return nil
	}
	return s
}

// sandboxer keeps a missing Sandbox a nil Sandboxer.
func sandboxer(s Sandbox) fs.Sandboxer {
	if s == nil {
		return nil
	}
	return s
}

// grace is what clients are told of a server.Config's SessionGrace.
func grace(d time.Duration) *time.Duration {
	switch {
	case d == 0:
		return nil
	case d < 0:
		d = 0
	}
	return &d
}

func retention(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}
