package changes

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A pipe, or something else that no tree can have, may be in the place of what the tree has. That is for peers that have
// it, and nobody has its content any more. Peers of PlainNames that do not have it would ask for it for ever: they are
// not offered it until the pipe is gone.

// occupied are paths of the tree in whose place something is that no tree can have. It is safe for concurrent use.
type occupied struct {
	mu     sync.Mutex
	passed map[string]bool // those of which, or below which, something was not offered
}

// occupiedNow returns the paths that are occupied as of the last Settle.
func (s *Server) occupiedNow() map[string]bool {
	var now map[string]bool
	for _, e := range s.ws.Unread() {
		if e.Kind != 0 {
			continue
		}
		if now == nil {
			now = map[string]bool{}
		}
		now[e.Path] = true
	}
	return now
}

// offerAgain has peers offered what they were not offered at paths that are not occupied any more. It reports whether
// there was something.
func (s *Server) offerAgain(ctx context.Context, now map[string]bool) (bool, error) {
	s.occupied.mu.Lock()
	defer s.occupied.mu.Unlock()
	var free []string
	for path := range s.occupied.passed {
		if !now[path] {
			free = append(free, path)
		}
	}
	if len(free) == 0 {
		return false, nil
	}
	slices.Sort(free)
	_, err := s.tree.Update(ctx, func(e *tree.Edit) error {
		for _, path := range free {
			if err := touchBelow(e, path); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("offer again what was out of reach: %w", err)
	}
	for _, path := range free {
		delete(s.occupied.passed, path)
	}
	return true, nil
}

// touchBelow gives a path, if the tree has it, and all below it a new revision.
func touchBelow(e *tree.Edit, path string) error {
	at, err := e.Touch(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil || at.Kind != tree.KindDir {
		return err
	}
	info, err := e.Lstat(path)
	if err != nil {
		return err
	}
	for last := ""; ; {
		list, err := e.Tx().Children(info.Ino, last, fetchPage)
		if err != nil {
			return err
		}
		for i := range list {
			last = list[i].Name.Name
			if err := touchBelow(e, path+"/"+last); err != nil {
				return err
			}
		}
		if len(list) < fetchPage {
			return nil
		}
	}
}

// pass leaves entries out that are occupied: all but removals.
func (o *occupied) pass(list []tree.Entry, now map[string]bool) []tree.Entry {
	if len(now) == 0 {
		return list
	}
	return slices.DeleteFunc(list, func(e tree.Entry) bool {
		if e.Kind == tree.KindDelete {
			return false
		}
		path := e.Path
		for !now[path] {
			i := strings.LastIndexByte(path, '/')
			if i <= 0 {
				return false
			}
			path = path[:i]
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.passed == nil {
			o.passed = map[string]bool{}
		}
		o.passed[path] = true
		return true
	})
}
