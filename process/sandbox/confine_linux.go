package sandbox

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

const sandboxType = protocol.SandboxLinux

// selfPath is this binary, whatever has become of its name.
const selfPath = "/proc/self/exe"

// confine prepares the start of cmd under a policy that restricts something.
func (e *Enforcer) confine(ctx context.Context, p *Policy, cmd process.Launch) (process.Confined, error) {
	b, err := e.prepare(ctx, p, func(pl *plan) {
		pl.Path, pl.Dir, pl.Limited, pl.Resources = []byte(cmd.Path), []byte(cmd.Dir), cmd.Limited, cmd.Resources
	})
	if err != nil {
		return process.Confined{}, err
	}
	confined := process.Confined{
		Launch: process.Launch{
			Path: selfPath, Argv: append([]string{"wsd", helperWord}, cmd.Argv...), Env: cmd.Env, Dir: cmd.Dir,
		},
		Files: b.files, Attr: b.attr, Type: sandboxType,
		Started: func() (*os.File, error) {
			err := processError(b.wait(context.Background()))
			return b.apart, err
		},
	}
	if b.masked {
		confined.Ended = b.tidy
	}
	return confined, nil
}

// tidyTime is how long the end of a program waits for its sandbox's. With descendants
// that live on, the sandbox does as well.
const tidyTime = 50 * time.Millisecond

// A birth is a helper that is about to be started.
type birth struct {
	files []*os.File // descriptors 3 and up
	attr  func(*syscall.SysProcAttr)
	done  chan struct{} // closed when the helper has become its program, or ended
	err   error         // why it has not; valid after done
	apart *os.File      // its IPC namespace, if its plan wants that; valid after done

	masked  bool          // there are masks
	limited bool          // the plan wants apart
	over    chan struct{} // closed when the masks are released
}

// tidy waits for the masks of a program that has ended to be gone.
func (b *birth) tidy() {
	late := time.NewTimer(tidyTime)
	defer late.Stop()
	select {
	case <-b.over:
	case <-late.C:
	}
}

// wait returns once the helper has executed the program, or why it could not.
func (b *birth) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prepare makes what a helper needs to confine itself to p. Until the files are
// closed the birth is waited for; nothing else has to be undone.
func (e *Enforcer) prepare(ctx context.Context, p *Policy, complete func(*plan)) (*birth, error) {
	pl, masks, way, err := e.planFor(ctx, p)
	if err != nil {
		return nil, err
	}
	complete(pl)
	return e.begin(pl, masks, way)
}

// begin makes the files of a helper and follows it. The masks are released when its sandbox
// ends, also if that never begins.
func (e *Enforcer) begin(pl *plan, masks []*mask, way way) (*birth, error) {
	pl.Watch = len(masks) > 0
	err := e.ways.ask(way, pl.Network)
	var b *birth
	var status *os.File
	if err == nil {
		b, status, err = newBirth(pl, way)
	}
	if err != nil {
		releaseMasks(masks)
		return nil, err
	}
	e.wg.Go(func() { e.follow(b, status, masks) }) // ends with the helper's birth, or its sandbox, or Close
	return b, nil
}

// planFor chooses how p is enforced, and holds the masks that takes.
func (e *Enforcer) planFor(ctx context.Context, p *Policy) (*plan, []*mask, way, error) {
	if p.unrestricted() {
		return &plan{Mechanism: mechanismNone, Network: true}, nil, wayPlain, nil
	}
	if p.FullWrite() {
		if err := e.networkWorks(ctx); err != nil {
			return nil, nil, wayNone, err
		}
		return &plan{Mechanism: mechanismNetwork, Network: p.Network}, nil, wayPlain, nil
	}
	namespaces := e.namespaces(ctx)
	if ctx.Err() != nil {
		return nil, nil, wayNone, context.Cause(ctx)
	}
	if p.Legacy || !namespaces.ok() {
		pl, err := e.landlockPlan(ctx, p, namespaces.reason)
		if err == nil {
			return pl, nil, wayPlain, nil
		}
		if !namespaces.ok() {
			return nil, nil, wayNone, err
		}
	}
	l, masks, err := settle(p)
	if err != nil {
		return nil, nil, wayNone, err
	}
	pl := newPlan(l)
	pl.Network = p.Network
	return pl, masks, namespaces.way, nil
}

// landlockPlan is the plan for Landlock alone, an error if it cannot express p: it
// only adds rights from the root downwards, and does not know of modes and times, so
// that a place to write would be one among others to change.
func (e *Enforcer) landlockPlan(ctx context.Context, p *Policy, lack string) (*plan, error) {
	var borrowed rights
	l, err := layOut(p, &borrowed)
	borrowed.giveBack()
	if err != nil {
		return nil, err
	}
	if l.Base == Write {
		return nil, unavailablef("protecting parts of a writable disk takes a mount namespace: %s", lack)
	}
	except := l.takeOwn()
	for _, at := range l.Places {
		switch {
		case at.Access == Deny:
			return nil, unavailablef("denying %s takes a mount namespace: %s", at.Path, lack)
		case at.Access == Write:
			return nil, unavailablef("writing in %s alone takes a mount namespace: %s", at.Path, lack)
		}
	}
	if err := e.landlockWorks(ctx); err != nil {
		return nil, unavailablef("restricting files takes a mount namespace (%s) or Landlock (%v)", lack, err)
	}
	pl := newPlan(l)
	pl.Mechanism, pl.Network = mechanismLandlock, p.Network
	for _, at := range except {
		if isSocket(at) && p.Network {
			return nil, unavailablef("keeping the network away from the socket %s takes a mount namespace: %s", at, lack)
		}
		pl.Except = append(pl.Except, []byte(at))
	}
	return pl, nil
}

// newBirth makes the files of a helper. The status socket's other end is returned. A helper
// that mounts is born into a mount namespace or makes one: never is it in this program's.
func newBirth(pl *plan, way way) (*birth, *os.File, error) {
	pl.Unshare = way == wayRoot
	if pl.Mechanism == mechanismNamespaces && way != wayUser && way != wayRoot {
		return nil, nil, unavailablef("make a mount namespace: this way has none")
	}
	text, err := pl.encode()
	if err != nil {
		return nil, nil, err
	}
	planFile, err := memoryFile(text)
	if err != nil {
		return nil, nil, unavailablef("pass the plan to the helper: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		_ = planFile.Close()
		return nil, nil, unavailablef("hear from the helper: %w", err)
	}
	_ = unix.SetNonblock(pair[1], false) // the helper waits
	return &birth{
		files: []*os.File{planFile, os.NewFile(uintptr(pair[1]), "status")},
		attr:  way.attributes(pl.Network),
		done:  make(chan struct{}), over: make(chan struct{}), masked: pl.Watch, limited: pl.wantsApart(),
	}, os.NewFile(uintptr(pair[0]), "status"), nil
}

// memoryFile returns a file without a name, at whose start text is to be read.
func memoryFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
