package computer

import (
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// target makes the main object of a session, nil for that of a batch.
func (c *Computer) target(s *session) *capnweb.Target {
	main := capnweb.NewTarget()
	main.Set("sync", syncTarget(c.cfg.Peer))
	main.Set("shell", shellTarget(c.cfg.Runs, s))
	return main
}

// config is that of a session, or of a batch, whose session is nil.
func (c *Computer) config(s *session, memory capnweb.Memory) capnweb.Config {
	return capnweb.Config{Main: c.target(s), MapError: mapError, Logger: c.log, Memory: memory}
}
