package mirror

import (
	"context"
	"maps"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Removals are the files and links that mirrors which share them have removed a short time ago, so that
// one that is removed after the other counts as what it is. They are not safe for use by two calls
// at once.
type Removals struct {
	within      time.Duration
	now         func() time.Time
	here, there map[string]time.Time // what was removed at a side, by the paths here
	made        map[string]time.Time // what was made on either side
}

// NewRemovals returns what is removed within some time.
func NewRemovals(within time.Duration) *Removals {
	return &Removals{within: within, now: time.Now, here: map[string]time.Time{}, there: map[string]time.Time{}, made: map[string]time.Time{}}
}

func (r *Removals) at(remote bool) map[string]time.Time {
	if remote {
		return r.there
	}
	return r.here
}

// before counts what was removed at a side before some that is to be removed.
func (r *Removals) before(remote bool, gone []removal) int {
	if r == nil {
		return 0
	}
	since := r.now().Add(-r.within)
	for _, list := range []map[string]time.Time{r.here, r.there, r.made} {
		maps.DeleteFunc(list, func(_ string, at time.Time) bool { return at.Before(since) })
	}
	n := len(r.at(remote))
	for _, g := range gone {
		if _, before := r.at(remote)[g.path]; before {
			n--
		}
	}
	return n
}

// old are those of some paths that were not made a short time ago.
func (r *Removals) old(gone []removal) []removal {
	var out []removal
	for _, g := range gone {
		if _, is := r.made[g.path]; !is {
			out = append(out, g)
		}
	}
	return out
}

// removed notes what is removed at a side.
func (r *Removals) removed(remote bool, gone []removal) {
	if r == nil {
		return
	}
	for _, g := range r.old(gone) {
		note(r.at(remote), g.path, r.now())
	}
}

// comes notes a path that is there, and whether it was not there a short time ago.
func (r *Removals) comes(path string, isNew bool) {
	_, wasHere := r.here[path]
	_, wasThere := r.there[path]
	delete(r.here, path)
	delete(r.there, path)
	if isNew && !wasHere && !wasThere {
		note(r.made, path, r.now())
	}
}

func note(list map[string]time.Time, path string, at time.Time) {
	if _, is := list[path]; is || len(list) < maxRemovals {
		list[path] = at
	}
}

// comesHere notes a path that is new or changed here.
func (m *Mirror) comesHere(ctx context.Context, e *tree.Entry) {
	r := m.cfg.Removals
	if r == nil || e.Kind == tree.KindDir {
		return
	}
	if info, err := m.tree.Lstat(ctx, e.Path); err == nil { // else it has gone meanwhile
		r.comes(e.Path, info.BTime.After(r.now().Add(-r.within)))
	}
}

// cameOver notes what a pull has made or changed here.
func (m *Mirror) cameOver(list []Change) {
	r := m.cfg.Removals
	if r == nil {
		return
	}
	for _, c := range list {
		if c.What != Deleted && c.Kind != tree.KindDir {
			r.comes(c.Path, c.What == Created)
		}
	}
}
