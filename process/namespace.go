package process

import (
	"errors"
	"io"
)

// A Namespace is a view of the file system in which children can be started: the host's
// own, with one directory bound to a second name. What is mounted or unmounted on the
// host is seen in it; this program itself keeps the host's view.
//
// A child costs nothing more for it: the threads that fork are in the Namespace, and
// their children are born there.
//
// A nil Namespace is the host's view.
type Namespace struct {
	forker *forker
	mounts io.Closer
}

// ErrNoNamespace says that this program may not make a Namespace, or that the system has
// none.
var ErrNoNamespace = errors.New("no mount namespace of its own for commands")

// Do runs fn on a thread that has the view, and returns when it has. fn opens, looks up
// and reads files; it waits for nothing else.
func (n *Namespace) Do(fn func()) {
	if n == nil {
		fn()
		return
	}
	n.forker.do(fn)
}

// Close ends the Namespace. Children that were started in it should be gone: those with
// pipes get SIGTERM.
func (n *Namespace) Close() {
	if n == nil {
		return
	}
	close(n.forker.stop)
	n.forker.wg.Wait()
	_ = n.mounts.Close() // it was only read
}
