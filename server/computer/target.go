package computer

import (
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// The paths at which sessions are dialled.
const (
	pathWS  = "/ws"
	pathAPI = "/api"
)

// hidden returns the names that are hidden from clients that do not say, by the path that
// was dialled.
func (c *Computer) hidden(path string) []string {
	switch {
	case c.cfg.Hidden != nil:
		return c.cfg.Hidden
	case path == pathWS:
		return changes.DefaultIgnore
	}
	return []string{}
}

// target makes the main object of a session, nil for that of a batch.
func (c *Computer) target(s *session, path string) *capnweb.Target {
	main := capnweb.NewTarget()
	main.Set("sync", syncTarget(c.cfg.Peer, c.hidden(path)))
	main.Set("shell", shellTarget(c.cfg.Runs, s))
	return main
}

// config is that of a session, or of a batch, whose session is nil, at a path.
func (c *Computer) config(s *session, path string, memory capnweb.Memory) capnweb.Config {
	return capnweb.Config{Main: c.target(s, path), MapError: mapError, Logger: c.log, Memory: memory}
}
