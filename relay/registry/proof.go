package registry

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"

	"github.com/wsd-dev/wsd/relay/seal"
)

// ProofParameter is the query parameter of a rendezvous URL that holds the answer to a
// challenge.
const ProofParameter = "proof"

// NewChallenge returns a challenge that only the holder of key's secret half can answer,
// and the answer. The challenge is message 1 of a handshake with that key, with the answer
// as its encrypted payload; own is the registry's end and may be any identity. The answer
// is good for this registration alone.
func NewChallenge(own *seal.Identity, key *seal.PublicKey, env, registration string) (challenge []byte, answer string, err error) {
	i, err := seal.NewInitiator(own, key, proofPrologue(env, registration))
	if err != nil {
		return nil, "", fmt.Errorf("challenge an executor: %w", err)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	answer = base64.RawURLEncoding.EncodeToString(secret[:])
	if challenge, err = i.WriteMessage1([]byte(answer)); err != nil {
		return nil, "", fmt.Errorf("challenge an executor: %w", err)
	}
	return challenge, answer, nil
}

// AnswerChallenge returns the answer to a challenge to id's key.
func AnswerChallenge(id *seal.Identity, env, registration string, challenge []byte) (string, error) {
	r, err := seal.NewResponder(id, proofPrologue(env, registration))
	if err != nil {
		return "", err
	}
	_, answer, err := r.ReadMessage1(challenge)
	if err != nil {
		return "", err
	}
	if base64.RawURLEncoding.DecodedLen(len(answer)) != 32 {
		return "", errors.New("the challenge has no answer")
	}
	return string(answer), nil
}

// proofPrologue binds a challenge to one registration. Its label makes sure that a
// challenge is never message 1 of a stream, nor the other way round.
func proofPrologue(env, registration string) seal.Prologue {
	return seal.Prologue{Label: seal.LabelProof, EnvironmentID: env, RegistrationID: registration}
}

// withProof adds the answer to a challenge to a rendezvous URL.
func withProof(rendezvous, answer string) (string, error) {
	u, err := url.Parse(rendezvous)
	if err != nil {
		return "", errors.New("the rendezvous URL is none")
	}
	q := u.Query()
	q.Set(ProofParameter, answer)
	u.RawQuery = q.Encode()
	return u.String(), nil
}
