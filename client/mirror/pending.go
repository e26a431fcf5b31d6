package mirror

import (
	"context"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// LocalPending settles this side, and reports whether it has anything that the remote is
// not known to have, a version that was overtaken, or other paths that are left out than the last Result
// has. A Sync that follows begins with what was settled.
func (m *Mirror) LocalPending(ctx context.Context) (bool, error) {
	pending := false
	_, err := m.run(ctx, false, func(ctx context.Context, _ *Result) error {
		if err := m.settle(ctx); err != nil {
			return err
		}
		info, err := m.tree.Info(ctx)
		if err != nil {
			return err
		}
		if err := m.rereadLeft(ctx); err != nil {
			return err
		}
		last, err := lost.Last(ctx, m.forest)
		behind := m.s.peer.Push.Compare(tree.At(info.Rev)) < 0
		if behind {
			refused, err := m.onlyWaiting(ctx)
			if err != nil {
				return err
			}
			behind = !refused
		}
		_, undecided := m.s.held.marked(func(path string, h held) bool { return h.Unkept != "" && m.unholds(path, h) })
		pending = behind || undecided || last > m.s.notes.OurLost || !changes.SameSkipped(m.leftHere, m.here())
		m.settledNow = pending && err == nil
		return err
	})
	return pending, err
}

// RemotePending has the remote settle, and reports whether it has anything that was not
// pulled, or has lost what it had, or leaves out other paths than the last Result has, or can read
// content again that it could not.
func (m *Mirror) RemotePending(ctx context.Context) (bool, error) {
	pending := false
	_, err := m.run(ctx, true, func(ctx context.Context, _ *Result) error {
		wm, err := m.settled(ctx)
		if err != nil {
			return err
		}
		pending = m.s.peer.Fetch.Compare(tree.At(wm.CurrentRev)) < 0 || lostBy(&m.s, wm.CurrentRev, wm.Fetch).any() || !changes.SameSkipped(m.leftThere, m.left())
		if pending = pending || m.fullHere.isDue(); !pending {
			var path string
			path, err = m.regained(ctx)
			pending = path != ""
		}
		return err
	})
	return pending, err
}

// AwaitRemote returns once the remote may have something that was not pulled, or after some
// time. Other calls of the mirror do not wait for it. errors.ErrUnsupported says that the
// remote does not tell: RemotePending asks it.
func (m *Mirror) AwaitRemote(ctx context.Context) error {
	var after, known int64
	_, err := m.run(ctx, false, func(context.Context, *Result) error {
		after, known = m.s.peer.Fetch.Rev, m.theirLost
		return nil
	})
	if err == nil {
		_, err = m.cfg.Remote.Await(ctx, after, known)
	}
	return err
}
