package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
)

// newCapability makes a policy that accepts one token.
func newCapability(cfg Config) (*Policy, error) {
	digest, warnings, err := capabilityDigest(cfg)
	if err != nil {
		return nil, err
	}
	return tokenPolicy(digest, warnings), nil
}

// tokenPolicy makes a policy that accepts the token with that digest. Digests are what is
// kept, and compared: that takes the same time for every token.
func tokenPolicy(digest [sha256.Size]byte, warnings []string) *Policy {
	return &Policy{warnings: warnings, check: func(token string) error {
		got := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], digest[:]) != 1 {
			return InvalidToken
		}
		return nil
	}}
}

func capabilityDigest(cfg Config) (digest [sha256.Size]byte, warnings []string, err error) {
	switch {
	case cfg.TokenFile != "" && cfg.TokenSHA256 != "":
		return digest, nil, errors.New("--ws-token-file and --ws-token-sha256 exclude each other")
	case cfg.TokenFile != "":
		token, warnings, err := readSecret("websocket token", cfg.TokenFile)
		if err != nil {
			return digest, nil, err
		}
		if len(token) == 0 {
			return digest, nil, fmt.Errorf("websocket token file %s is empty", cfg.TokenFile)
		}
		return sha256.Sum256(token), append(warnings, checkToken(token)...), nil
	case cfg.TokenSHA256 != "":
		b, err := hex.DecodeString(cfg.TokenSHA256)
		if err != nil || len(b) != len(digest) {
			return digest, nil, errors.New("--ws-token-sha256 must be 64 hex digits")
		}
		copy(digest[:], b)
		return digest, nil, nil
	default:
		return digest, nil, errors.New("--ws-auth capability-token needs --ws-token-file or --ws-token-sha256")
	}
}
