package rendezvous

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A registration is the executor of an environment.
type registration struct {
	ID       string          `json:"id"`
	Key      *seal.PublicKey `json:"key"`
	Token    string          `json:"token"`
	Profiles []frame.Profile `json:"profiles,omitempty"`
	Made     time.Time       `json:"made"`
	// Instance names the process that has registered; "" if it cannot prove that it holds
	// Key. Proof is the digest of its proof, and Proved says that it was given.
	Instance string `json:"instance,omitempty"`
	Proof    string `json:"proof,omitempty"`
	Proved   bool   `json:"proved,omitempty"`
	// Node holds the executor's socket; "" if none does. Attached is since when, Remote from
	// where, Left when the last one has gone, Ended that it has said so.
	Node     string    `json:"node,omitempty"`
	Attached time.Time `json:"attached,omitzero"`
	Remote   string    `json:"remote,omitempty"`
	Left     time.Time `json:"left,omitzero"`
	Ended    bool      `json:"ended,omitempty"`

	revision uint64
}

// An authorization is what a harness was handed, by the digest of its text.
type authorization struct {
	Environment  string    `json:"environment"`
	Registration string    `json:"registration"`
	Key          string    `json:"key"` // fingerprint of the harness's
	Token        string    `json:"token"`
	Expires      time.Time `json:"expires"`
}

// A nodeRecord says that a node lives.
type nodeRecord struct {
	ID      string    `json:"id"`
	URL     string    `json:"url"`
	Started time.Time `json:"started"`
	Expires time.Time `json:"expires"`
	// Draining nodes take nobody new.
	Draining bool      `json:"draining,omitempty"`
	Stats    NodeStats `json:"stats"`
}

// alive says whether the node is to be believed in.
func (n *nodeRecord) alive(now time.Time) bool { return now.Before(n.Expires) }

// random makes what nobody can guess: 128 bits for names, 256 for secrets.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// randomID makes a name that people may have to type.
func randomID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// read decodes an entry into v and returns its revision.
func read(ctx context.Context, s State, bucket Bucket, key string, v any) (uint64, error) {
	e, err := s.Get(ctx, bucket, key)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(e.Value, v); err != nil {
		return 0, fmt.Errorf("%s %s: %w", bucket, key, err)
	}
	return e.Revision, nil
}

func write(ctx context.Context, s State, bucket Bucket, key string, v any, revision uint64) (uint64, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	return s.Put(ctx, bucket, key, value, revision)
}

// registration returns that of env, or ErrNotFound.
func (n *Node) registration(ctx context.Context, env string) (*registration, error) {
	r := &registration{}
	var err error
	if r.revision, err = read(ctx, n.state, BucketRegistrations, env, r); err != nil {
		return nil, err
	}
	return r, nil
}

// update changes the registration of env by change, which may be called more than once,
// and returns an error to leave it as it is.
func (n *Node) update(ctx context.Context, env string, change func(*registration) error) error {
	for {
		r, err := n.registration(ctx, env)
		if err != nil {
			return err
		}
		if err := change(r); err != nil {
			return err
		}
		_, err = write(ctx, n.state, BucketRegistrations, env, r, r.revision)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// holder returns the living node that holds the socket of env's executor, nil if none does.
func (n *Node) holder(ctx context.Context, env string, r *registration) (*nodeRecord, error) {
	if r.Node == "" {
		return nil, nil
	}
	if r.Node == n.id {
		if !n.holds(env, r.ID) {
			return nil, nil // cut off a moment ago
		}
		return &nodeRecord{ID: n.id, URL: n.cfg.NodeURL, Draining: n.isDraining()}, nil
	}
	node := &nodeRecord{}
	_, err := read(ctx, n.state, BucketNodes, r.Node, node)
	if errors.Is(err, ErrNotFound) || err == nil && !node.alive(time.Now()) {
		return nil, nil
	}
	return node, err
}

// A secret signs URLs.
type secret struct {
	Key  []byte    `json:"key"`
	Made time.Time `json:"made"`
}

const secretKey = "urls"

// secrets returns those that URLs may be signed with, the current one first. It makes
// one, and replaces one that is old.
func (n *Node) secrets(ctx context.Context) ([]secret, error) {
	n.mu.Lock()
	known := n.known
	n.mu.Unlock()
	if len(known) > 0 && time.Since(known[0].Made) < SecretLife {
		return known, nil
	}
	for {
		var all []secret
		revision, err := read(ctx, n.state, BucketSecrets, secretKey, &all)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if len(all) == 0 || time.Since(all[0].Made) >= SecretLife {
			fresh := secret{Key: make([]byte, 32), Made: time.Now().UTC()}
			_, _ = rand.Read(fresh.Key) // never fails
			all = slices.Insert(all, 0, fresh)
			all = all[:min(2, len(all))]
			_, err := write(ctx, n.state, BucketSecrets, secretKey, all, revision)
			if errors.Is(err, ErrConflict) {
				continue // another node was faster
			}
			if err != nil {
				return nil, err
			}
		}
		n.mu.Lock()
		n.known = all
		n.mu.Unlock()
		return all, nil
	}
}
