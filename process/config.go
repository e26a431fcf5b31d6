package process

import (
	"log/slog"
	"os"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/protocol"
)

// Config is what a Service may be told; the zero value works.
type Config struct {
	// SessionID names the session in listings.
	SessionID string
	// Logger is told what the client is not. nil discards.
	Logger *slog.Logger
	// Retention is how long a closed process stays readable and its id taken; 0 means
	// protocol.ProcessRetention.
	Retention time.Duration
	// Directory is that of the server; nil means that there are no other sessions.
	Directory *Directory
	// Sandbox confines what a client wants confined; nil refuses to start that.
	Sandbox Launcher
	// Limiter holds commands to limits; nil refuses to start those that have some.
	Limiter *limit.Limiter
	// Mount places commands whose directory is in it; nil places none.
	Mount *Mount
	// Spawner starts the children and is closed by the Service; nil means a HostSpawner.
	Spawner Spawner
	// Recorder, if set, keeps the logs beyond the session. With Durable, which clients know
	// of by the capability durableLog, process/read and process/list find them.
	Recorder *eventlog.Recorder
	Durable  bool
	// Client says who the session's client is; nil for nobody.
	Client func() (name, peer string)
	// OpenLog opens the log of a new process; nil means one of the Recorder, or one in
	// memory without.
	OpenLog func(processID string) (Log, error)
	// Environ returns the server's environment, for requests that build on it. It is
	// called once at most; nil means os.Environ.
	Environ func() []string
}

// A Log keeps the numbered events of one process; *eventlog.Log implements it and says
// what the methods do. It is safe for concurrent use.
type Log interface {
	Append(e eventlog.Event) (uint64, error)
	Read(dst []eventlog.Event, after uint64, maxBytes int) (eventlog.Page, error)
	Close() error
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Retention == 0 {
		c.Retention = protocol.ProcessRetention
	}
	if c.Directory == nil {
		c.Directory = NewDirectory()
	}
	if c.Spawner == nil {
		c.Spawner = new(HostSpawner)
	}
	if c.OpenLog == nil {
		c.OpenLog = func(string) (Log, error) { return eventlog.NewLog(c.Recorder, eventlog.Retention{}), nil }
	}
	if c.Client == nil {
		c.Client = func() (name, peer string) { return "", "" }
	}
	if c.Environ == nil {
		c.Environ = os.Environ
	}
	return c
}
