package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A pipe, or something else that no tree can have, may be in the place of a file of the tree. The tree keeps the file for
// peers that have it. Nobody has its content any more. Peers of PlainNames that do not have the file would ask for its
// content for ever: they are not offered it until the pipe is gone.

// occupied are paths of the tree in whose place something is that no tree can have. It is safe for concurrent use.
type occupied struct {
	mu sync.Mutex
	// passed are those of which, or below which, something was not offered, as stored in the row of Server.occupiedID;
	// nil until that is read.
	passed map[string]bool
}

// occupiedID is the row of peers that has the paths of occupied.passed, as JSON, in place of a path.
func (s *Server) occupiedID() string { return s.peer + " occupied" }

// loadPassed reads occupied.passed, with its lock held.
func (s *Server) loadPassed(ctx context.Context) error {
	if s.occupied.passed != nil {
		return nil
	}
	row, err := s.tree.Peer(ctx, s.occupiedID())
	if err != nil {
		return err
	}
	var list []string
	if text := row.Fetch.Path; text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return fmt.Errorf("read %s: %w: %w", row.ID, tree.ErrDamaged, err)
		}
	}
	s.occupied.passed = map[string]bool{}
	for _, path := range list {
		s.occupied.passed[path] = true
	}
	return nil
}

// storePassed stores what is to be occupied.passed.
func (s *Server) storePassed(e *tree.Edit, passed map[string]bool) error {
	text, err := json.Marshal(slices.Sorted(maps.Keys(passed)))
	if err != nil {
		return err
	}
	return e.ResetPeer(tree.Peer{ID: s.occupiedID(), Fetch: tree.AtPath(0, string(text))})
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
	if err := s.loadPassed(ctx); err != nil {
		return false, err
	}
	var free []string
	stay := map[string]bool{}
	for path := range s.occupied.passed {
		if now[path] {
			stay[path] = true
		} else {
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
		return s.storePassed(e, stay)
	})
	if err != nil {
		return false, fmt.Errorf("offer again what was out of reach: %w", err)
	}
	s.occupied.passed = stay
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

// pass leaves entries out that are occupied: all but removals. It stores their paths, so that a server that is started
// later offers them again.
func (s *Server) pass(ctx context.Context, list []tree.Entry, now map[string]bool) ([]tree.Entry, error) {
	if len(now) == 0 {
		return list, nil
	}
	passed := map[string]bool{}
	list = slices.DeleteFunc(list, func(e tree.Entry) bool {
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
		passed[path] = true
		return true
	})
	if len(passed) == 0 {
		return list, nil
	}
	s.occupied.mu.Lock()
	defer s.occupied.mu.Unlock()
	if err := s.loadPassed(ctx); err != nil {
		return nil, err
	}
	known := len(s.occupied.passed)
	maps.Copy(passed, s.occupied.passed)
	if len(passed) == known {
		return list, nil
	}
	if _, err := s.tree.Update(ctx, func(e *tree.Edit) error { return s.storePassed(e, passed) }); err != nil {
		return nil, fmt.Errorf("note what is out of reach: %w", err)
	}
	s.occupied.passed = passed
	return list, nil
}
