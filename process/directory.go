package process

import (
	"cmp"
	"slices"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// A Directory knows the sessions of a server, so that a client may list and end the
// processes of all of them.
type Directory struct {
	mu       sync.Mutex
	services map[*Service]struct{}
}

// NewDirectory returns an empty Directory.
func NewDirectory() *Directory {
	return &Directory{services: make(map[*Service]struct{})}
}

func (d *Directory) add(s *Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.services[s] = struct{}{}
}

func (d *Directory) remove(s *Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.services, s)
}

// find returns the service of a session, nil if there is none.
func (d *Directory) find(sessionID string) *Service {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.services {
		if s.cfg.SessionID == sessionID {
			return s
		}
	}
	return nil
}

// all lists the processes of all sessions.
func (d *Directory) all() []protocol.ProcessInfo {
	d.mu.Lock()
	services := make([]*Service, 0, len(d.services))
	for s := range d.services {
		services = append(services, s)
	}
	d.mu.Unlock()
	var infos []protocol.ProcessInfo
	for _, s := range services {
		infos = append(infos, s.infos()...)
	}
	return infos
}

// sortByAge puts the oldest process first.
func sortByAge(infos []protocol.ProcessInfo) {
	slices.SortFunc(infos, func(a, b protocol.ProcessInfo) int {
		return cmp.Or(
			cmp.Compare(a.StartedAtMs, b.StartedAtMs),
			cmp.Compare(a.SessionID, b.SessionID),
			cmp.Compare(a.ProcessID, b.ProcessID))
	})
}
