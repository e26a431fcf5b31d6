package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A way is how a helper gets its namespaces.
type way int

const (
	wayNone  way = iota
	wayPlain     // it needs none
	wayUser      // it is born into them, and into a user namespace in which it may mount
	wayRoot      // it makes them with the capabilities of this process
)

// attributes returns what a helper's fork has to do for the way, nil for nothing.
func (w way) attributes(network bool) func(*syscall.SysProcAttr) {
	if w != wayUser {
		return nil
	}
	return func(attr *syscall.SysProcAttr) {
		attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
		if !network {
			attr.Cloneflags |= unix.CLONE_NEWNET
		}
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		if os.Geteuid() != 0 { // root keeps them through exec
			// Places may be in directories that their owner has closed.
			attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_READ_SEARCH}
		}
	}
}

// ways are what this machine turned out to allow. Each is tried by a helper that really does
// it, once unless there was only no room for it.
type ways struct {
	namespaces, landlock, seccomp, network question
	// doubt is set while it is not known whether children can be born into namespaces: one
	// was not, or ended at once. The next start asks mayClone first.
	doubt atomic.Bool
}

// ask returns why no helper can be born the way w. It asks the system in case of doubt only,
// since that takes a child.
func (ws *ways) ask(w way, network bool) error {
	if w != wayUser || !ws.doubt.Load() {
		return nil
	}
	if err := mayClone(w.attributes(network)); err != nil {
		return unavailablef("make a user namespace: %w", err)
	}
	ws.doubt.Store(false)
	return nil
}

// A question is put to this machine by the first request that needs the answer.
type question struct {
	mu   sync.Mutex
	last *reply // nil before the first request
}

// A reply is what this machine says to a question.
type reply struct {
	done chan struct{} // closed when the rest is valid
	*attempt
	expires time.Time // zero for an answer that is kept
}

// isOver reports whether the question is to be put anew.
func (r *reply) isOver() bool {
	select {
	case <-r.done:
		return !r.expires.IsZero() && !time.Now().Before(r.expires)
	default:
		return false
	}
}

// passingTime is how long an answer is kept that may be another soon.
const passingTime = 2 * time.Second

// isPassing reports whether err says nothing about what this machine allows: it has no room
// at the moment, or the helper was killed.
func isPassing(err error) bool {
	if err == nil {
		return false
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return true // of a helper that did not come to an answer
	}
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, unix.ENOBUFS, unix.EINTR, unix.EPIPE, unix.ECONNRESET:
		return true
	}
	return false
}

// An attempt is what came of trying.
type attempt struct {
	way    way
	err    error
	reason string // why not, in words
}

func (a *attempt) ok() bool { return a.way != wayNone }

// tryOnce returns the answer to q, which try finds. The attempt belongs to the Enforcer: it
// goes on, and its answer is kept, when the request that caused it ends before it. A
// passing error is kept for passingTime.
func (e *Enforcer) tryOnce(ctx context.Context, q *question, try func(context.Context) *attempt) *attempt {
	q.mu.Lock()
	if q.last == nil || q.last.isOver() {
		r := &reply{done: make(chan struct{})}
		q.last = r
		e.wg.Go(func() { // ends with its helpers, which Close ends
			defer close(r.done)
			r.attempt = try(context.WithoutCancel(ctx))
			if isPassing(r.err) {
				r.expires = time.Now().Add(passingTime)
			}
		})
	}
	r := q.last
	q.mu.Unlock()
	select {
	case <-r.done:
		return r.attempt
	default:
	}
	select {
	case <-r.done:
		return r.attempt
	case <-ctx.Done():
		err := context.Cause(ctx)
		return &attempt{err: err, reason: reasonOf(err)}
	}
}

// namespaces tells whether and how a helper gets a view of the disk of its own.
func (e *Enforcer) namespaces(ctx context.Context) *attempt {
	return e.tryOnce(ctx, &e.ways.namespaces, func(ctx context.Context) *attempt {
		if e.cfg.force == "landlock" || e.cfg.force == "none" {
			return &attempt{reason: "namespaces are switched off"}
		}
		pl := &plan{Mechanism: mechanismNamespaces, Base: Read}
		var failed error
		if e.cfg.force != "root" {
			if failed = e.try(ctx, pl, wayUser); failed == nil {
				return &attempt{way: wayUser}
			}
		}
		if os.Geteuid() == 0 && e.cfg.force != "user" {
			err := e.try(ctx, pl, wayRoot)
			if err == nil {
				return &attempt{way: wayRoot}
			}
			if !isPassing(failed) {
				failed = err
			}
		}
		return &attempt{err: failed, reason: reasonOf(failed)}
	})
}

func (e *Enforcer) landlockWorks(ctx context.Context) error {
	return e.tryOnce(ctx, &e.ways.landlock, func(ctx context.Context) *attempt {
		if e.cfg.force != "" && e.cfg.force != "landlock" {
			return &attempt{err: unavailablef("Landlock is switched off")}
		}
		return &attempt{err: e.try(ctx, &plan{Mechanism: mechanismLandlock, Base: Read}, wayPlain)}
	}).err
}

func (e *Enforcer) seccompWorks(ctx context.Context) error {
	return e.tryOnce(ctx, &e.ways.seccomp, func(ctx context.Context) *attempt {
		if e.cfg.force == "none" {
			return &attempt{err: unavailablef("seccomp is switched off")}
		}
		return &attempt{err: e.try(ctx, &plan{Mechanism: mechanismNetwork, Network: true}, wayPlain)}
	}).err
}

// networkWorks tells whether the network alone can be taken away.
func (e *Enforcer) networkWorks(ctx context.Context) error {
	return e.tryOnce(ctx, &e.ways.network, func(ctx context.Context) *attempt {
		if e.cfg.force == "none" {
			return &attempt{err: unavailablef("seccomp is switched off")}
		}
		return &attempt{err: e.try(ctx, &plan{Mechanism: mechanismNetwork}, wayPlain)}
	}).err
}

// try has a helper carry pl out and end.
func (e *Enforcer) try(ctx context.Context, pl *plan, w way) error {
	if w == wayUser {
		if err := mayClone(w.attributes(pl.Network)); err != nil {
			return unavailablef("make a user namespace: %w", err)
		}
	}
	trial := *pl
	trial.Role = roleNothing
	h, err := e.start(ctx, &trial, nil, w, nil)
	if err != nil {
		return err
	}
	return h.finish()
}

func reasonOf(err error) string {
	if u, ok := err.(*unavailable); ok { //nolint:errorlint // made by hear, and not wrapped
		return u.missing
	}
	return err.Error()
}

// mayClone tells whether a child may be born into the namespaces that attributes asks for,
// by one that then finds no program. A start that is refused there, and has user IDs to map,
// loses two descriptors in Go's syscall package (as of Go 1.26).
func mayClone(attributes func(*syscall.SysProcAttr)) error {
	attr := &syscall.SysProcAttr{}
	attributes(attr)
	attr.UidMappings, attr.GidMappings, attr.AmbientCaps = nil, nil, nil
	if _, err := syscall.ForkExec("", nil, &syscall.ProcAttr{Sys: attr}); err != syscall.ENOENT { //nolint:errorlint // ForkExec returns it as it is
		return err
	}
	return nil
}
