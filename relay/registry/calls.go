package registry

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A Registrant is an executor that registers its keys and can prove that it holds them.
type Registrant struct {
	Identity *seal.Identity
	// Instance names the process; it stays the same as long as the process runs.
	Instance string
	// Previous is the registration with which the process was connected last, "" if it
	// never was.
	Previous string
}

// Register publishes an executor's key for env, and that it has the reliable profile.
// The answer has been checked: it is for env, and may be dialled. The registry is not
// given a proof that the caller holds the key's secret half; see RegisterProved.
func (c *Client) Register(ctx context.Context, env string, key *seal.PublicKey) (*RegisterResponse, error) {
	return c.register(ctx, env, key, http.Header{})
}

// RegisterProved is Register for an executor that answers the registry's challenge, if it
// sends one: the URL that it returns has the proof.
func (c *Client) RegisterProved(ctx context.Context, env string, r Registrant) (*RegisterResponse, error) {
	header := http.Header{HeaderInstance: {r.Instance}}
	if r.Previous != "" {
		header.Set(HeaderPrevious, headerText(r.Previous))
	}
	out, err := c.register(ctx, env, r.Identity.Public(), header)
	if err != nil || len(out.Challenge) == 0 {
		return out, err
	}
	answer, err := AnswerChallenge(r.Identity, env, out.ExecutorRegistrationID, out.Challenge)
	if err != nil {
		return nil, c.unusable(OpRegister, "its challenge is not for this executor: "+err.Error())
	}
	if out.URL, err = withProof(out.URL, answer); err != nil {
		return nil, c.unusable(OpRegister, err.Error())
	}
	return out, nil
}

func (c *Client) register(ctx context.Context, env string, key *seal.PublicKey, header http.Header) (*RegisterResponse, error) {
	header.Set(HeaderProfiles, string(frame.Reliable))
	out := new(RegisterResponse)
	here, err := c.do(ctx, call{
		op: OpRegister, env: env, limit: RegisterTimeout,
		header: header,
		in:     RegisterRequest{SecurityProfile: SecurityProfile, ExecutorPublicKey: key},
		out:    out,
	})
	if err != nil {
		return nil, err
	}
	out.Elsewhere = !here
	if problem := checkAnswer(env, out.EnvironmentID, out.SecurityProfile, out.ExecutorRegistrationID, out.URL, here); problem != "" {
		return nil, c.unusable(OpRegister, problem)
	}
	return out, nil
}

// Connect asks for a way to the executor of env. What it returns has been checked: it
// is for env, complete, and may be dialled.
func (c *Client) Connect(ctx context.Context, env string, key *seal.PublicKey) (*ConnectResponse, error) {
	out := new(ConnectResponse)
	here, err := c.do(ctx, call{
		op: OpConnect, env: env, limit: ConnectTimeout,
		in:  ConnectRequest{HarnessPublicKey: key},
		out: out,
	})
	if err != nil {
		return nil, err
	}
	out.Elsewhere = !here
	problem := checkAnswer(env, out.EnvironmentID, out.SecurityProfile, out.ExecutorRegistrationID, out.URL, here)
	switch {
	case problem != "":
	case out.ExecutorPublicKey == nil:
		problem = "executor_public_key is missing"
	case strings.TrimSpace(out.HarnessKeyAuthorization) == "":
		problem = "harness_key_authorization is missing"
	case len(out.HarnessKeyAuthorization) > MaxAuthorization:
		problem = fmt.Sprintf("harness_key_authorization is longer than %d bytes", MaxAuthorization)
	}
	if problem != "" {
		return nil, c.unusable(OpConnect, problem)
	}
	return out, nil
}

// Validate asks whether what came in message 1 of a stream may come in. It is asked
// once: a second node is tried only if the first one cannot have had the request. The same
// one may have it twice, if it closes a connection: if it had answered, the answer is no then.
func (c *Client) Validate(ctx context.Context, env, streamID string, req ValidateRequest) (bool, error) {
	var out struct {
		Valid *bool `json:"valid"`
	}
	_, err := c.do(ctx, call{
		op: OpValidate, env: env, limit: ValidateTimeout, once: true,
		header: http.Header{HeaderStreamID: {headerText(streamID)}},
		in:     req,
		out:    &out,
	})
	switch {
	case err != nil:
		return false, err
	case out.Valid == nil:
		return false, c.unusable(OpValidate, "valid is missing")
	}
	return *out.Valid, nil
}

// unusable is an answer of the node that answered last.
func (c *Client) unusable(op, problem string) error {
	return &ResponseError{Op: op, Host: c.bases[c.first.Load()].Host, Problem: problem}
}

// checkAnswer says what is wrong with the members that both answers have; "" if nothing.
func checkAnswer(env, gotEnv, profile, registration, rendezvous string, here bool) string {
	switch {
	case gotEnv != env:
		return fmt.Sprintf("it is for environment %q, not %q", clean(gotEnv, MaxEnvironmentID), env)
	case profile != SecurityProfile:
		return fmt.Sprintf("security profile %q is not known", clean(profile, 64))
	case strings.TrimSpace(registration) == "":
		return "executor_registration_id is missing"
	}
	err := CheckRendezvousURL(rendezvous)
	if err == nil && !here {
		err = checkElsewhere(rendezvous)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// headerText is a stream id as a header carries it: a harness chooses it, and what no
// header may have in it is replaced. Ours and codex's are UUIDs and stay as they are.
func headerText(id string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, id)
}
