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

// OpenArchived opens a log, and describes it if it is to be archived.
func OpenArchived(a *Archive, limit Retention, described bool) LogStore {
	l := a.open(limit)
	if described {
		l.describe(&protocol.ProcessInfo{ProcessID: "p"})
	}
	return l
}

// OpenArchivedAs opens and describes a log.
func OpenArchivedAs(a *Archive, limit Retention, id string) LogStore {
	l := a.open(limit)
	l.describe(&protocol.ProcessInfo{ProcessID: id})
	return l
}

// PendingBytes is how much output of a log waits to be written.
func PendingBytes(l LogStore) int {
	a := l.(*archivedLog)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.output.bytes
}

// Closing reports whether Close of an Archive has begun.
func Closing(a *Archive) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}
