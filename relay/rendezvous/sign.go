package rendezvous

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// pathPrefix stands before the environment id in rendezvous URLs.
const pathPrefix = "/relay/"

// Roles in rendezvous URLs, as the peers' own relay calls them.
const (
	roleEnvironment = "environment"
	roleHarness     = "harness"
)

// A ticket is what a rendezvous URL says, and is signed.
type ticket struct {
	env, role    string
	registration string
	expires      time.Time
	// subject is who a harness is, node where its executor is attached, nonce what makes
	// the URL good for one socket. They are empty for executors.
	subject, node, nonce string
	// successor is what the registration is to be once the executor has attached, "" if it
	// is that already.
	successor string
	// proof is the answer to the registration's challenge. It is not signed: the executor
	// adds it.
	proof string
}

// A rejection is why an upgrade is refused, in the words that the peers know.
type rejection string

const (
	rejectMalformed    rejection = "malformed_query"
	rejectExtra        rejection = "extra_query_param"
	rejectVersion      rejection = "missing_version"
	rejectRole         rejection = "invalid_role"
	rejectExpiry       rejection = "invalid_expiry"
	rejectExpired      rejection = "expired"
	rejectSignature    rejection = "invalid_signature"
	rejectRegistration rejection = "unexpected_executor_registration_id"
	rejectDraining     rejection = "pod_draining"
	rejectRoute        rejection = "unknown_route"
	rejectUnavailable  rejection = "route_unavailable"
	rejectProof        rejection = "invalid_secret"
)

func (r rejection) Error() string { return string(r) }

// names are those of the query, in the order in which they are signed.
var names = []string{"v", "role", "exp", "reg", "sub", "node", "n", "next"}

func (t *ticket) query() url.Values {
	return url.Values{
		"v": {"1"}, "role": {t.role}, "exp": {strconv.FormatInt(t.expires.Unix(), 10)},
		"reg": {t.registration}, "sub": {t.subject}, "node": {t.node}, "n": {t.nonce}, "next": {t.successor},
	}
}

// sum authenticates a ticket. No part contains a newline.
func (t *ticket) sum(key []byte) []byte {
	q := t.query()
	parts := []string{"wsd-relay-url/v1", t.env}
	for _, name := range names {
		if name == "next" && t.successor == "" {
			continue // as versions without it sign
		}
		parts = append(parts, q.Get(name))
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(parts, "\n")))
	return mac.Sum(nil)
}

// sign makes the URL of a ticket below base.
func (n *Node) sign(ctx context.Context, base *url.URL, t *ticket) (string, error) {
	secrets, err := n.secrets(ctx)
	if err != nil {
		return "", err
	}
	u := *base
	u.Scheme = map[string]string{"http": "ws", "https": "wss"}[base.Scheme]
	u.Path = strings.TrimSuffix(base.Path, "/") + pathPrefix + t.env
	q := t.query()
	for name, values := range q {
		if values[0] == "" {
			q.Del(name)
		}
	}
	q.Set("sig", base64.RawURLEncoding.EncodeToString(t.sum(secrets[0].Key)))
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// verify reads the ticket of a request. Its error is a rejection, or that of the State.
func (n *Node) verify(ctx context.Context, env string, raw string) (*ticket, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, rejectMalformed
	}
	for name, values := range q {
		if name != "sig" && name != registry.ProofParameter && !slices.Contains(names, name) {
			return nil, rejectExtra
		}
		if len(values) != 1 || strings.ContainsAny(values[0], "\n\r") {
			return nil, rejectMalformed
		}
	}
	if registry.CheckEnvironmentID(env) != nil {
		return nil, rejectRoute
	}
	if q.Get("v") != "1" {
		return nil, rejectVersion
	}
	seconds, err := strconv.ParseInt(q.Get("exp"), 10, 64)
	if err != nil {
		return nil, rejectExpiry
	}
	t := &ticket{
		env: env, role: q.Get("role"), registration: q.Get("reg"), expires: time.Unix(seconds, 0),
		subject: q.Get("sub"), node: q.Get("node"), nonce: q.Get("n"),
		successor: q.Get("next"), proof: q.Get(registry.ProofParameter),
	}
	if t.role != roleEnvironment && t.role != roleHarness {
		return nil, rejectRole
	}
	sum, err := base64.RawURLEncoding.DecodeString(q.Get("sig"))
	if err != nil {
		return nil, rejectSignature
	}
	secrets, err := n.secrets(ctx)
	if err != nil {
		return nil, err
	}
	good := false
	for _, s := range secrets {
		good = hmac.Equal(sum, t.sum(s.Key)) || good
	}
	switch {
	case !good:
		return nil, rejectSignature
	case !time.Now().Before(t.expires):
		return nil, rejectExpired
	}
	return t, nil
}

// asRejection returns the rejection in err, if it is one.
func asRejection(err error) (rejection, bool) {
	r, ok := errors.AsType[rejection](err)
	return r, ok
}
