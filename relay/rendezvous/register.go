package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
)

// register answers an executor that wants to be the one of its environment. Another one,
// with other keys, keeps its place while it is attached, and for a moment after it was cut
// off: the two would throw each other out for ever.
func (a *asked) register(ctx context.Context, w http.ResponseWriter, body []byte) {
	n := a.node
	var req registry.RegisterRequest
	if err := json.Unmarshal(body, &req); err != nil || req.ExecutorPublicKey == nil {
		a.refuseBody(w, err)
		return
	}
	if req.SecurityProfile != registry.SecurityProfile {
		a.refuse(w, http.StatusBadRequest, codeBadRequest, "unknown security profile: this registry has %s", registry.SecurityProfile)
		return
	}
	instance := a.request.Header.Get(registry.HeaderInstance)
	if instance != "" && (len(instance) > maxInstance || !validKey(instance)) {
		a.refuse(w, http.StatusBadRequest, codeBadRequest, "the header %s has 1 to %d letters, digits, _ and -", registry.HeaderInstance, maxInstance)
		return
	}
	if n.isDraining() {
		a.refuse(w, http.StatusServiceUnavailable, registry.CodeRegistrationConflict, "the relay is shutting down: ask again")
		return
	}
	fresh := &registration{
		ID: random(16), Key: req.ExecutorPublicKey, Token: a.token.ID, Instance: instance,
		Profiles: profiles(a.request.Header.Values(registry.HeaderProfiles)), Made: time.Now().UTC(),
	}
	var challenge []byte
	if instance != "" {
		var answer string
		var err error
		if challenge, answer, err = registry.NewChallenge(n.identity, fresh.Key, a.env, fresh.ID); err != nil {
			a.refuse(w, http.StatusBadRequest, codeBadRequest, "the public key cannot be used: %v", err)
			return
		}
		fresh.Proof = digest(answer)
	}
	t := &ticket{
		env: a.env, role: roleEnvironment, registration: fresh.ID, expires: time.Now().Add(ExecutorURLLife), subject: a.token.ID,
	}
	err := n.enroll(ctx, a.env, fresh, a.request.Header.Get(registry.HeaderPrevious), t)
	switch {
	case errors.Is(err, errInUse):
		a.refuse(w, http.StatusConflict, registry.CodeInUse, "another executor, with other keys or another token, has environment %s", a.env)
		return
	case errors.Is(err, errNewer):
		a.refuse(w, http.StatusConflict, registry.CodeReplaced, "another executor with the same keys has environment %s since then", a.env)
		return
	case errors.Is(err, errFull):
		a.refuse(w, http.StatusTooManyRequests, registry.CodeQuota, "all of the token's %d executors are attached: use another token for more", MaxRegistrations)
		return
	}
	var url string
	if err == nil {
		url, err = n.sign(ctx, n.public, t)
	}
	if err != nil {
		a.unreachable(w, err)
		return
	}
	a.audit(slog.Int("status", http.StatusOK), slog.String("registration", fresh.ID), slog.String("key", req.ExecutorPublicKey.Fingerprint().String()))
	answer(w, http.StatusOK, registry.RegisterResponse{
		EnvironmentID: a.env, URL: url, SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: fresh.ID, Challenge: challenge,
	})
}

// maxInstance bounds the name of an executor's process.
const maxInstance = 64

// profiles reads the announced ones that a harness may be told of.
func profiles(header []string) []frame.Profile {
	for part := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if strings.TrimSpace(part) == string(frame.Reliable) {
			return []frame.Profile{frame.Codex, frame.Reliable}
		}
	}
	return nil
}

// connect tells a harness where its executor is.
func (a *asked) connect(ctx context.Context, w http.ResponseWriter, body []byte) {
	n := a.node
	var req registry.ConnectRequest
	if err := json.Unmarshal(body, &req); err != nil || req.HarnessPublicKey == nil {
		a.refuseBody(w, err)
		return
	}
	if n.isDraining() {
		a.refuse(w, http.StatusServiceUnavailable, codeUnavailable, "the relay is shutting down: ask again")
		return
	}
	if n.brakes.paused(tenancy{a.token.ID, a.env}) {
		a.refuse(w, http.StatusTooManyRequests, codePaused, "too many handshakes of the token have failed: ask again later")
		return
	}
	if n.meters.full(&a.token) {
		a.refuse(w, http.StatusTooManyRequests, registry.CodeQuota, "the token has its %d streams", a.token.Quota.Streams)
		return
	}
	r, err := n.registration(ctx, a.env)
	var holder *nodeRecord
	if err == nil {
		holder, err = n.holder(ctx, a.env, r)
	}
	switch {
	case errors.Is(err, ErrNotFound) || err == nil && (holder == nil || holder.Draining):
		a.refuse(w, http.StatusConflict, registry.CodeOffline, "no executor is attached to environment %s", a.env)
		return
	case err != nil:
		a.unreachable(w, err)
		return
	}
	if !n.reckon(tenancy{a.token.ID, a.env}) {
		a.refuse(w, http.StatusTooManyRequests, codeUnused, "the token has %d authorizations for the environment, or %d in all, that were not used: ask again in a minute",
			MaxAuthorizations, MaxTokenAuthorizations)
		return
	}
	text, key := random(32), req.HarnessPublicKey.Fingerprint().String()
	_, err = write(ctx, n.state, BucketAuthorizations, digest(text), authorization{
		Environment: a.env, Registration: r.ID, Key: key, Token: a.token.ID, Expires: time.Now().Add(AuthorizationLife).UTC(),
	}, 0)
	if err != nil {
		n.unreckon(tenancy{a.token.ID, a.env})
		a.unreachable(w, err)
		return
	}
	url, err := n.harnessURL(ctx, holder, &ticket{
		env: a.env, role: roleHarness, registration: r.ID, expires: time.Now().Add(HarnessURLLife),
		subject: a.token.ID + "." + key, node: holder.ID, nonce: random(16),
	})
	if err != nil {
		a.unreachable(w, err)
		return
	}
	a.audit(slog.Int("status", http.StatusOK), slog.String("registration", r.ID), slog.String("key", key), slog.String("node", holder.ID))
	answer(w, http.StatusOK, registry.ConnectResponse{
		EnvironmentID: a.env, URL: url, SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: r.ID,
		ExecutorPublicKey: r.Key, HarnessKeyAuthorization: text, RelayProfiles: r.Profiles,
	})
}

// reckon counts an authorization that is not used yet, unless there are as many as may be.
func (n *Node) reckon(who tenancy) bool {
	if !n.unused.add(who.token, MaxTokenAuthorizations) {
		return false
	}
	if !n.unused.add(who.String(), MaxAuthorizations) {
		n.unused.less(who.token)
		return false
	}
	return true
}

// unreckon takes reckon back.
func (n *Node) unreckon(who tenancy) {
	n.unused.less(who.token)
	n.unused.less(who.String())
}

func (n *Node) harnessURL(ctx context.Context, holder *nodeRecord, t *ticket) (string, error) {
	base, err := registry.ParseBaseURL(holder.URL)
	if err != nil {
		return "", err
	}
	return n.sign(ctx, base, t)
}

// validate says whether a handshake's key and authorization belong together. The
// authorization is used up, on whichever node it is asked for, whatever the answer.
func (a *asked) validate(ctx context.Context, w http.ResponseWriter, body []byte) {
	var req registry.ValidateRequest
	if err := json.Unmarshal(body, &req); err != nil || req.HarnessPublicKey == nil {
		a.refuseBody(w, err)
		return
	}
	valid, token, err := a.take(ctx, &req)
	if err != nil {
		a.unreachable(w, err)
		return
	}
	a.audit(slog.Int("status", http.StatusOK), slog.Bool("valid", valid), slog.String("harness", token),
		slog.String("key", req.HarnessPublicKey.Fingerprint().String()))
	answer(w, http.StatusOK, registry.ValidateResponse{Valid: valid})
}

// take uses the authorization of req up and compares; token is who it was made for.
func (a *asked) take(ctx context.Context, req *registry.ValidateRequest) (valid bool, token string, err error) {
	n := a.node
	if req.HarnessKeyAuthorization == "" || len(req.HarnessKeyAuthorization) > registry.MaxAuthorization {
		return false, "", nil
	}
	var auth authorization
	key := digest(req.HarnessKeyAuthorization)
	revision, err := read(ctx, n.state, BucketAuthorizations, key, &auth)
	if err == nil {
		err = n.state.Delete(ctx, BucketAuthorizations, key, revision)
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		return false, "", nil // never made, or used before
	}
	if err != nil {
		return false, "", err
	}
	n.unreckon(tenancy{auth.Token, auth.Environment})
	r, err := n.registration(ctx, a.env)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, "", err
	}
	valid = err == nil && time.Now().Before(auth.Expires) &&
		auth.Environment == a.env && auth.Registration == req.ExecutorRegistrationID && r.ID == auth.Registration &&
		auth.Key == req.HarnessPublicKey.Fingerprint().String()
	if valid {
		// A token that was revoked since connect lets nobody in.
		_, err := n.liveToken(ctx, auth.Token)
		if _, over := asRejection(err); err != nil && !over {
			return false, "", err
		}
		valid = err == nil
	}
	return valid, auth.Token, nil
}
