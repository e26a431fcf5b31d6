package sandbox

import (
	"errors"
	iofs "io/fs"
	"os"
	"slices"
	"sync"

	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// A PrivatePath is a file or directory that no sandbox gives access to, whatever the
// policy says: the server keeps its tokens, keys, sockets or stores there.
type PrivatePath struct {
	Path string // absolute
	// Dir: Path is a directory. While it is missing, a policy that makes the place
	// writable cannot have it made. A file that is missing has nothing to hide.
	Dir bool
}

// resolve is Resolve, with the alias and the private paths of the server added. A policy that does
// not restrict the file system has none: it may write what the server's user runs, so
// that covering anything would keep nothing from it.
func (e *Enforcer) resolve(s *protocol.Sandbox, in Context) (*Policy, error) {
	p, err := Resolve(s, in)
	if err != nil || p.Unconfined {
		return p, err
	}
	if e.cfg.Alias != nil {
		p.addAlias(e.cfg.Alias())
	}
	if e.cfg.Private != nil {
		p.Private = e.cfg.Private()
	}
	return p, nil
}

// asksFullWrite is FullWrite for the policy as the client sent it.
func (p *Policy) asksFullWrite() bool {
	asked := *p
	asked.Private = nil
	return asked.FullWrite()
}

// asksFullRead is FullRead for the policy as the client sent it.
func (p *Policy) asksFullRead() bool {
	asked := *p
	asked.Private = nil
	return asked.FullRead()
}

// realPaths keeps the private paths without links, which take longer to find than the
// file that is asked for.
type realPaths struct {
	mu         sync.Mutex
	of         []PrivatePath
	mounts     mountTable
	valid      bool     // real is of the list and of the mounts
	real       []string // the last ones found
	generation uint64
}

// resolve returns the paths of list without links, by all mounts, as far as they exist, and
// a number that is another whenever the list or the paths are. Without the mounts there is
// only the number.
func (r *realPaths) resolve(list []PrivatePath) (real []string, generation uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := slices.Equal(r.of, list)
	if changed := r.mounts.hasChanged(); r.valid && same && !changed {
		return r.real, r.generation, nil
	}
	r.valid = false
	if !same {
		r.of = list
		r.generation++
	}
	all, err := r.mounts.read()
	if err != nil {
		return nil, r.generation, err
	}
	real = make([]string, len(list))
	for i, own := range list {
		real[i] = lineage.Real(own.Path)
		real = append(real, all.candidates(real[i])...) // also of what does not exist yet
	}
	if same && !slices.Equal(r.real, real) {
		r.generation++
	}
	r.real, r.valid = real, true
	return real, r.generation, nil
}

// close gives the table of mounts back.
func (r *realPaths) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mounts.close()
	r.valid = false
}

// Generation changes when there are other private paths, so that helpers which have
// started before do not hide all of them.
func (e *Enforcer) Generation() uint64 {
	if e.cfg.Private == nil {
		return 0
	}
	_, generation, _ := e.private.resolve(e.cfg.Private()) // a helper is refused without the mounts
	return generation
}

// hidePrivate denies the private paths. The policy's rules for what is below them go.
func (b *builder) hidePrivate() error {
	for _, own := range b.policy.Private {
		f, err := b.followOwn(own.Path)
		b.pinLinks(f.through) // the next sandbox must find the same place
		switch {
		case err != nil && outOfReach(own.Path) && accessIn(b.rules, f.real) != Write:
			continue // the confined program cannot get there either, nor change that
		case err != nil:
			return err
		case f.blocked != "":
			b.put(found{real: f.blocked, dir: true}, Deny)
		case f.exists && f.real != "/":
			b.rules = slices.DeleteFunc(b.rules, func(r Rule) bool { return slashpath.Within(r.Path, f.real) })
			b.put(f, Deny)
			b.own[f.real] = true
		case !f.exists && own.Dir:
			b.absent = append(b.absent, absentRule{Rule{f.real, Deny}, f.missing})
		}
	}
	return nil
}

// followOwn is follow for a path of the server's. The links are not the policy's: they
// are not made in a root of its own.
func (b *builder) followOwn(at string) (found, error) {
	links := b.links
	b.links = map[string]string{}
	defer func() { b.links = links }()
	return b.follow(at)
}

// outOfReach reports whether this process has no right to enter a directory above at.
func outOfReach(at string) bool {
	_, err := os.Lstat(at)
	return errors.Is(err, iofs.ErrPermission)
}

// takeOwn removes from l the places that only wsd adds, and returns the paths of the
// denied ones.
func (l *layout) takeOwn() (denied []string) {
	l.Places = slices.DeleteFunc(l.Places, func(at place) bool {
		if at.Own && at.Access == Deny {
			denied = append(denied, at.Path)
		}
		return at.Own
	})
	return denied
}
