package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// claim tells the other nodes that the executor is here. Its error is a rejection if the
// executor may not attach any more, or that of the State. A later claim of an executor that
// has gone meanwhile changes nothing.
func (n *Node) claim(ctx context.Context, e *executor) error {
	err := n.update(ctx, e.env, func(r *registration) error {
		if e.claimed.Load() && !n.has(e) {
			return errNotOurs
		}
		admitted, err := n.admit(ctx, r, e.ticket)
		if err != nil {
			return err
		}
		admitted.Node, admitted.Attached, admitted.Remote, admitted.Left, admitted.Ended = n.id, e.began.UTC(), e.remote, time.Time{}, false
		*r = *admitted
		return nil
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return rejectRegistration
	case errors.Is(err, errNotOurs):
		return nil
	case err == nil:
		e.claimed.Store(true)
	}
	return err
}

// errNotOurs leaves a registration as it is.
var errNotOurs = errors.New("not that node's")

// disclaim takes back that it is at node, unless it is attached elsewhere by now. ended
// says that it has ended by itself, and is not about to come back; that counts too where
// reconcile has taken it back before.
func (n *Node) disclaim(ctx context.Context, env, id, node string, ended bool) error {
	err := n.update(ctx, env, func(r *registration) error {
		stale := r.Node == node || r.Node == "" && ended && !r.Ended
		if r.ID != id || !stale || n.holds(env, r.ID) || n.expects(env, r.ID) {
			return errNotOurs
		}
		r.Node, r.Attached, r.Remote, r.Left, r.Ended = "", time.Time{}, "", time.Now().UTC(), ended
		return nil
	})
	if errors.Is(err, errNotOurs) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// reconcile compares what is attached here with what the State says: an executor that
// has attached to another node, or was replaced by a registration elsewhere, is closed,
// and what could not be written when the State was away is written now. It reads the list
// of all registrations, and looks at those that have changed.
func (n *Node) reconcile(ctx context.Context) error {
	held := map[string]*executor{} // those whose claims the list must have
	n.mu.Lock()
	for env, e := range n.executors {
		if e.claimed.Load() {
			held[env] = e
		}
	}
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, StateTimeout)
	defer cancel()
	entries, err := n.state.List(ctx, BucketRegistrations)
	if err != nil {
		return err
	}
	seen := make(map[string]uint64, len(entries))
	var errs []error
	for _, entry := range entries {
		e := held[entry.Key]
		delete(held, entry.Key)
		if n.seen[entry.Key] != entry.Revision || e != nil {
			elsewhere, err := n.compare(ctx, entry, e)
			if err != nil {
				errs = append(errs, err)
			}
			if err != nil || !elsewhere {
				continue // the next time again
			}
		}
		seen[entry.Key] = entry.Revision
	}
	n.seen = seen
	for _, e := range held {
		e.shut(closeGoingAway, "the registration is gone")
	}
	return errors.Join(errs...)
}

// compare does so for one environment; e is nil if no executor of it was attached here.
// elsewhere says that there was none, and that the State says the same: that is so until
// the registration changes.
func (n *Node) compare(ctx context.Context, entry Entry, e *executor) (elsewhere bool, err error) {
	var r struct{ ID, Node string }
	if err := json.Unmarshal(entry.Value, &r); err != nil {
		return false, err
	}
	switch {
	case e == nil && r.Node == n.id:
		return false, n.disclaim(ctx, entry.Key, r.ID, n.id, false)
	case e == nil:
		return true, nil
	case r.ID != e.registration, r.Node != "" && r.Node != n.id:
		e.shut(closeGoingAway, "replaced")
	case r.Node == "": // the State lost that the socket is here; it still is
		err := n.claim(ctx, e)
		if _, rejected := asRejection(err); err != nil && !rejected {
			return false, err
		}
	}
	return false, nil
}
