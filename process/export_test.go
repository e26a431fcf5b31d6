package process

import (
	"context"

	"github.com/wsd-dev/wsd/protocol"
)

// InfosOf lists the processes of a service whose client may be stalled.
var InfosOf = (*Service).infos

// StartOn serves process/start without a connection.
func StartOn(s *Service, p *protocol.StartParams) (*protocol.StartResult, error) {
	return s.start(context.Background(), p)
}

// DropPidfd makes a child look as it does on kernels without usable pidfds.
func DropPidfd(c *Child) {
	p := c.Process.(*hostProcess)
	_ = p.pidfd.Close()
	p.pidfd = nil
}

// ReadOn serves process/read, and ListOn process/list, without a connection.
func ReadOn(s *Service, p *protocol.ReadParams) (*protocol.ReadResult, error) {
	return s.read(context.Background(), p)
}

// ListOn is described at ReadOn.
func ListOn(s *Service, scope string) (*protocol.ListResult, error) {
	return s.list(context.Background(), &protocol.ListParams{Scope: &scope})
}
