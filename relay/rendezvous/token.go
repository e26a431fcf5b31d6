package rendezvous

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// A Role is what the holder of a token may be.
type Role string

// The roles there are.
const (
	RoleExecutor Role = "executor"
	RoleHarness  Role = "harness"
)

// AnyEnvironment as a token's environment lets it into all.
const AnyEnvironment = "*"

// A Token is who may come in. Its secret is not kept.
type Token struct {
	ID          string    `json:"id"`
	Role        Role      `json:"role"`
	Environment string    `json:"environment"`
	Note        string    `json:"note,omitempty"`
	Created     time.Time `json:"created"`
	// Expires is zero if the token does not.
	Expires time.Time `json:"expires,omitzero"`
	Quota   Quota     `json:"quota,omitzero"`
}

// A Quota bounds what all sockets of a token may do at once on a node; 0 is no bound.
type Quota struct {
	// Streams is how many streams a harness's token may have. A socket counts as one
	// before it has any.
	Streams int `json:"streams,omitempty"`
	// BytesPerSecond is how much may pass, both ways together. More is not lost but read later.
	BytesPerSecond int `json:"bytesPerSecond,omitempty"`
}

// storedToken is a Token as the State has it.
type storedToken struct {
	Token
	SHA256 string `json:"sha256"`
}

// admits says whether t, which is known to be its holder's, is for role and env.
func (t *Token) admits(role Role, env string) bool {
	return t.Role == role && (t.Environment == AnyEnvironment || t.Environment == env)
}

func (t *Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Tokens makes and revokes tokens. It works beside running nodes.
type Tokens struct{ State State }

const tokenPrefix = "wsd"

// Create makes a token of what t says, save for ID and Created, and returns it with its
// secret, which nobody can have again.
func (s Tokens) Create(ctx context.Context, t Token) (Token, string, error) {
	switch {
	case t.Role != RoleExecutor && t.Role != RoleHarness:
		return Token{}, "", fmt.Errorf("unknown role %q: want %s or %s", t.Role, RoleExecutor, RoleHarness)
	case len(t.Note) > MaxNote:
		return Token{}, "", fmt.Errorf("the note has %d bytes, at most %d are kept", len(t.Note), MaxNote)
	case t.Quota.Streams < 0 || t.Quota.BytesPerSecond < 0:
		return Token{}, "", errors.New("a quota cannot be negative")
	case t.Quota.BytesPerSecond > 0 && t.Quota.BytesPerSecond < MaxFrame:
		return Token{}, "", fmt.Errorf("%d bytes a second are too few: a frame has up to %d", t.Quota.BytesPerSecond, MaxFrame)
	case !t.Expires.IsZero() && t.expired(time.Now()):
		return Token{}, "", errors.New("the token would have expired already")
	}
	if t.Environment != AnyEnvironment {
		if err := registry.CheckEnvironmentID(t.Environment); err != nil {
			return Token{}, "", err
		}
	}
	all, err := s.List(ctx)
	if err != nil {
		return Token{}, "", err
	}
	if len(all) >= MaxTokens {
		return Token{}, "", fmt.Errorf("there are %d tokens already: revoke some", len(all))
	}
	t.ID, t.Created = randomID(), time.Now().UTC().Truncate(time.Second)
	text := tokenPrefix + "-" + t.ID + "-" + random(32)
	value, err := json.Marshal(storedToken{t, digest(text)})
	if err != nil {
		return Token{}, "", err
	}
	if _, err := s.State.Put(ctx, BucketTokens, t.ID, value, 0); err != nil {
		return Token{}, "", fmt.Errorf("keep the token: %w", err)
	}
	return t, text, nil
}

// List returns all tokens, those that have expired too.
func (s Tokens) List(ctx context.Context) ([]Token, error) {
	entries, err := s.State.List(ctx, BucketTokens)
	if err != nil {
		return nil, fmt.Errorf("list the tokens: %w", err)
	}
	tokens := make([]Token, 0, len(entries))
	for _, e := range entries {
		var t storedToken
		if err := json.Unmarshal(e.Value, &t); err != nil {
			return nil, fmt.Errorf("token %s: %w", e.Key, err)
		}
		tokens = append(tokens, t.Token)
	}
	return tokens, nil
}

// Revoke deletes a token. Nodes close its sockets at their next heartbeat.
func (s Tokens) Revoke(ctx context.Context, id string) error {
	err := s.State.Delete(ctx, BucketTokens, id, AnyRevision)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("token %q: %w", id, ErrNotFound)
	}
	return err
}

// errCredential: whoever asks is not known.
var errCredential = errors.New("unknown, expired or revoked token")

// find returns the token of a bearer's text, or errCredential.
func (s Tokens) find(ctx context.Context, text string) (Token, error) {
	prefix, rest, _ := strings.Cut(text, "-")
	id, _, ok := strings.Cut(rest, "-")
	if prefix != tokenPrefix || !ok || !validKey(id) {
		return Token{}, errCredential
	}
	e, err := s.State.Get(ctx, BucketTokens, id)
	if errors.Is(err, ErrNotFound) {
		return Token{}, errCredential
	}
	if err != nil {
		return Token{}, err
	}
	var t storedToken
	if err := json.Unmarshal(e.Value, &t); err != nil {
		return Token{}, fmt.Errorf("token %s: %w", id, err)
	}
	if subtle.ConstantTimeCompare([]byte(digest(text)), []byte(t.SHA256)) != 1 || t.expired(time.Now()) {
		return Token{}, errCredential
	}
	return t.Token, nil
}

// digest is what is kept of a secret of 256 bits.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// validKey says whether key can be one of a State.
func validKey(key string) bool {
	return key != "" && len(key) <= registry.MaxEnvironmentID && registry.CheckEnvironmentID(key) == nil
}

// LogValue implements slog.LogValuer.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", t.ID), slog.String("role", string(t.Role)), slog.String("env", t.Environment))
}
