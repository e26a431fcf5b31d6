package mirror

import (
	"cmp"
	"context"

	"github.com/wsd-dev/wsd/fs/tree"
)

// AboutID is the ID of the peer that a tree keeps instead of a text: About is the path of its Fetch.
func AboutID(peerID string) string { return cmp.Or(peerID, DefaultPeerID) + " about" }

// About is a text of the caller's that is stored with what a tree knows of the other end that it calls
// so; "" stands for DefaultPeerID, and for no text.
func About(ctx context.Context, t *tree.Tree, peerID string) (string, error) {
	row, err := t.Peer(ctx, AboutID(peerID))
	return row.Fetch.Path, err
}

// SetAbout stores that text.
func SetAbout(ctx context.Context, t *tree.Tree, peerID, text string) error {
	_, err := t.Update(ctx, func(e *tree.Edit) error {
		return e.ResetPeer(tree.Peer{ID: AboutID(peerID), Fetch: tree.AtPath(0, text)})
	})
	return err
}
