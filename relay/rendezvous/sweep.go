package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// sweep deletes what has expired, of whichever node it was, and counts the rest.
func (n *Node) sweep(ctx context.Context) error {
	now := time.Now()
	n.used.sweep(now)
	n.brakes.sweep(now)
	_, err := n.sweepBucket(ctx, BucketNodes, now)
	return errors.Join(err, n.sweepAuthorizations(ctx, now), n.sweepRegistrations(ctx, now))
}

func (n *Node) sweepAuthorizations(ctx context.Context, now time.Time) error {
	before := n.unused.now()
	left, err := n.sweepBucket(ctx, BucketAuthorizations, now)
	if err == nil {
		n.unused.recount(before, left)
	}
	return err
}

// sweepBucket deletes the entries of bucket that have expired, and counts those of each
// token, and of each token in an environment, that are left. Whoever else does so at the same time is as welcome.
func (n *Node) sweepBucket(ctx context.Context, bucket Bucket, now time.Time) (left map[string]int, err error) {
	ctx, cancel := context.WithTimeout(ctx, StateTimeout)
	defer cancel()
	entries, err := n.state.List(ctx, bucket)
	if err != nil {
		return nil, err
	}
	left = map[string]int{}
	for _, e := range entries {
		var v struct {
			Token       string    `json:"token"`
			Environment string    `json:"environment"`
			Expires     time.Time `json:"expires"`
		}
		if err := json.Unmarshal(e.Value, &v); err != nil || now.Before(v.Expires) {
			left[v.Token]++
			left[tenancy{v.Token, v.Environment}.String()]++
			continue
		}
		if err := n.discard(ctx, bucket, e.Key, e.Revision); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// discard deletes an entry unless it has changed, or is deleted already.
func (n *Node) discard(ctx context.Context, bucket Bucket, key string, revision uint64) error {
	err := n.state.Delete(ctx, bucket, key, revision)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// An absence is a registration whose executor is attached nowhere.
type absence struct {
	env, id, token string
	node           string // that was lost with it, if one was
	since          time.Time
	revision       uint64
}

// absences lists them, those that are away for longest first, and counts the
// registrations there are of each token.
func (n *Node) absences(ctx context.Context) ([]absence, map[string]int, error) {
	entries, err := n.state.List(ctx, BucketRegistrations)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := n.state.List(ctx, BucketNodes)
	if err != nil {
		return nil, nil, err
	}
	alive := map[string]bool{}
	for _, e := range nodes {
		var node nodeRecord
		alive[e.Key] = json.Unmarshal(e.Value, &node) == nil && node.alive(time.Now())
	}
	var away []absence
	all := map[string]int{}
	for _, e := range entries {
		var r struct { // without the key, which takes longest to read
			ID, Token, Node      string
			Made, Attached, Left time.Time
		}
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", BucketRegistrations, e.Key, err)
		}
		all[r.Token]++
		there := alive[r.Node]
		if r.Node == n.id {
			there = n.holds(e.Key, r.ID)
		}
		if !there {
			since := slices.MaxFunc([]time.Time{r.Made, r.Attached, r.Left}, time.Time.Compare)
			away = append(away, absence{env: e.Key, id: r.ID, token: r.Token, node: r.Node, since: since, revision: e.Revision})
		}
	}
	slices.SortFunc(away, func(a, b absence) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.env, b.env)) })
	return away, all, nil
}

// sweepRegistrations forgets executors that are away for RegistrationLife. Whoever comes
// back after that is answered 401, and registers anew. Since when one is away that was
// lost with its node is not known: from now on.
func (n *Node) sweepRegistrations(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, StateTimeout)
	defer cancel()
	before := n.registered.now()
	away, all, err := n.absences(ctx)
	if err != nil {
		return err
	}
	for _, a := range away {
		if now.Sub(a.since) < RegistrationLife {
			break
		}
		if a.node != "" {
			if err := n.disclaim(ctx, a.env, a.id, a.node, false); err != nil {
				return err
			}
			continue
		}
		if err := n.discard(ctx, BucketRegistrations, a.env, a.revision); err != nil {
			return err
		}
		all[a.token]--
	}
	n.registered.recount(before, all)
	return nil
}

// errFull: a token has as many registrations as it may, and all are in use.
var errFull = errors.New("the token has as many executors attached as it may")

// makeRoom counts a new registration of a token. One that has as many as it may loses a
// hundredth of them, those whose executors are away for longest: with machines that come
// and go under names of their own, nobody needs to tidy up.
func (n *Node) makeRoom(ctx context.Context, token string) error {
	if n.registered.add(token, MaxRegistrations) {
		return nil
	}
	before := n.registered.now()
	away, all, err := n.absences(ctx)
	if err != nil {
		return err
	}
	for _, a := range away {
		if a.token != token || all[token] <= MaxRegistrations-MaxRegistrations/100 {
			continue
		}
		if err := n.discard(ctx, BucketRegistrations, a.env, a.revision); err != nil {
			return err
		}
		all[token]--
	}
	n.registered.recount(before, all)
	if !n.registered.add(token, MaxRegistrations) {
		return errFull
	}
	return nil
}
