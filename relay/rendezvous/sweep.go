package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// sweepBucket deletes the entries of bucket that have expired. Whoever else does so at
// the same time is as welcome.
func (n *Node) sweepBucket(ctx context.Context, bucket Bucket, now time.Time) error {
	entries, err := n.state.List(ctx, bucket)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var v struct {
			Expires time.Time `json:"expires"`
		}
		if err := json.Unmarshal(e.Value, &v); err != nil || now.Before(v.Expires) {
			continue
		}
		err := n.state.Delete(ctx, bucket, e.Key, e.Revision)
		if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return nil
}
