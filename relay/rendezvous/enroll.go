package rendezvous

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
)

var (
	// errInUse: another executor has the environment.
	errInUse = errors.New("another executor has the environment")
	// errNewer: an executor with the same keys has registered later.
	errNewer = errors.New("another executor has the same keys")
)

// A successor is a registration that is to replace another one with the same keys, once
// its executor has attached. Its URL carries it, so that it takes no room here and stands
// in nobody's way.
type successor struct {
	// Replaces is the registration that it may replace.
	Replaces string          `json:"replaces"`
	Token    string          `json:"token"`
	Instance string          `json:"instance,omitempty"`
	Proof    string          `json:"proof,omitempty"`
	Profiles []frame.Profile `json:"profiles,omitempty"`
	Made     time.Time       `json:"made"`
}

// encode returns s as a part of a ticket.
func (s *successor) encode() (string, error) {
	data, err := json.Marshal(s)
	return base64.RawURLEncoding.EncodeToString(data), err
}

// decodeSuccessor reads the part of a ticket whose signature is good.
func decodeSuccessor(text string) (*successor, error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	s := &successor{}
	if err != nil || json.Unmarshal(data, s) != nil {
		return nil, rejectMalformed
	}
	return s, nil
}

// enroll makes fresh the registration of env, or its ticket that of a successor. previous
// is the registration with which the process of fresh was connected last.
func (n *Node) enroll(ctx context.Context, env string, fresh *registration, previous string, t *ticket) error {
	for {
		old, err := n.registration(ctx, env)
		var revision uint64
		switch {
		case errors.Is(err, ErrNotFound):
			if err := n.makeRoom(ctx, fresh.Token); err != nil {
				return err
			}
		case err != nil:
			return err
		case old.Key.Equal(fresh.Key):
			if old.newerThan(fresh, previous) {
				return errNewer
			}
			if err := n.mayFollow(ctx, env, old, fresh.Token, fresh.Proof != ""); err != nil {
				return err
			}
			next := &successor{
				Replaces: old.ID, Token: fresh.Token, Instance: fresh.Instance, Proof: fresh.Proof, Profiles: fresh.Profiles, Made: fresh.Made,
			}
			t.successor, err = next.encode()
			return err
		default:
			free, err := n.free(ctx, env, old, fresh.Token)
			if err != nil {
				return err
			}
			if !free {
				return errInUse
			}
			revision = old.revision
		}
		fresh.revision, err = write(ctx, n.state, BucketRegistrations, env, fresh, revision)
		if err != nil && revision == 0 {
			n.registered.less(fresh.Token)
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// newerThan reports whether r is that of another process with the keys of fresh, which
// has proved them, and which came after fresh was connected with previous.
func (r *registration) newerThan(fresh *registration, previous string) bool {
	return r.Proved && fresh.Instance != "" && r.Instance != fresh.Instance && previous != "" && previous != r.ID
}

// mayFollow returns nil if an executor with the keys of old may replace it: one that
// proves that it has them, or, while old counts and was not proved itself either, one with
// the same token. codex's own executors prove nothing.
func (n *Node) mayFollow(ctx context.Context, env string, old *registration, token string, proves bool) error {
	if proves || !old.Proved && old.Token == token {
		return nil
	}
	attached, lost, err := n.presence(ctx, env, old)
	if err != nil {
		return err
	}
	if attached || time.Since(lost) < ReturnTime {
		return errInUse
	}
	return nil
}

// free reports whether an executor with other keys may have the place of old: if old is
// not attached and, unless it was never proved and had the same token, is not about to
// come back.
func (n *Node) free(ctx context.Context, env string, old *registration, token string) (bool, error) {
	attached, lost, err := n.presence(ctx, env, old)
	if err != nil || attached {
		return false, err
	}
	return !old.Proved && old.Token == token || time.Since(lost) >= ReturnTime, nil
}

// presence reports whether the executor of r is attached, and when it was cut off if it is
// not: the zero time if it has ended by itself or never was attached.
func (n *Node) presence(ctx context.Context, env string, r *registration) (attached bool, lost time.Time, err error) {
	holder, err := n.holder(ctx, env, r)
	switch {
	case err != nil || holder != nil:
		return holder != nil, time.Time{}, err
	case r.Ended:
		return false, time.Time{}, nil
	case r.Node == "":
		return false, r.Left, nil
	case r.Node == n.id:
		return false, time.Now(), nil // not written down yet
	}
	node := &nodeRecord{}
	_, err = read(ctx, n.state, BucketNodes, r.Node, node)
	if errors.Is(err, ErrNotFound) {
		return false, n.begun, nil // with its node, perhaps as late as this one began
	}
	return false, node.Expires, err
}

// admit reports whether the executor with ticket t may attach where r is the registration,
// and returns the registration that there is then.
func (n *Node) admit(ctx context.Context, r *registration, t *ticket) (*registration, error) {
	if r.ID == t.registration {
		if !proves(t.proof, r.Proof) {
			return nil, rejectProof
		}
		admitted := *r
		admitted.Proved = r.Proof != ""
		return &admitted, nil
	}
	if t.successor == "" {
		return nil, rejectRegistration
	}
	s, err := decodeSuccessor(t.successor)
	switch {
	case err != nil:
		return nil, err
	case s.Replaces != r.ID:
		return nil, rejectRegistration
	case !proves(t.proof, s.Proof):
		return nil, rejectProof
	}
	switch err := n.mayFollow(ctx, t.env, r, s.Token, s.Proof != ""); {
	case errors.Is(err, errInUse):
		return nil, rejectRegistration
	case err != nil:
		return nil, err
	}
	return &registration{
		ID: t.registration, Key: r.Key, Token: s.Token, Profiles: s.Profiles, Made: s.Made,
		Instance: s.Instance, Proof: s.Proof, Proved: s.Proof != "", revision: r.revision,
	}, nil
}

// proves reports whether proof is that of the digest; any is if there is none.
func proves(proof, want string) bool {
	return want == "" || subtle.ConstantTimeCompare([]byte(digest(proof)), []byte(want)) == 1
}
