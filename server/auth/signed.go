package auth

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// minSecretBytes is the shortest key for HS256 that is as strong as its digest (RFC
// 7518, section 3.2).
const minSecretBytes = 32

// verifier checks JWTs.
type verifier struct {
	secret           Secret
	issuer, audience string
	skew             time.Duration
	now              func() time.Time
	parser           *jwt.Parser
	warnings         []string
}

func newSigned(cfg Config) (*Policy, error) {
	v, err := newVerifier(cfg)
	if err != nil {
		return nil, err
	}
	return &Policy{check: v.check, warnings: v.warnings}, nil
}

func newVerifier(cfg Config) (*verifier, error) {
	if cfg.SharedSecretFile == "" {
		return nil, errors.New("--ws-auth signed-bearer-token needs --ws-shared-secret-file")
	}
	secret, warnings, err := readSecret("websocket shared secret", cfg.SharedSecretFile)
	if err != nil {
		return nil, err
	}
	if len(secret) < minSecretBytes {
		return nil, fmt.Errorf("websocket shared secret file %s must hold at least %d bytes", cfg.SharedSecretFile, minSecretBytes)
	}
	v := &verifier{secret: secret, issuer: cfg.Issuer, audience: cfg.Audience, skew: DefaultClockSkew, now: time.Now, warnings: warnings}
	if cfg.ClockSkew != nil {
		if v.skew = *cfg.ClockSkew; v.skew < 0 {
			return nil, errors.New("--ws-max-clock-skew-seconds must not be negative")
		}
	}
	// The claims are checked here, since their refusals differ and exp is required. The
	// algorithm is fixed: that of the token is not trusted.
	v.parser = jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	return v, nil
}

// check accepts a token that is signed with the secret and whose claims hold now. The
// order of the refusals is that of the original.
func (v *verifier) check(token string) error {
	var c claims
	parsed, err := v.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return []byte(v.secret), nil })
	if err != nil || !parsed.Valid {
		return InvalidJWT
	}
	if _, critical := parsed.Header["crit"]; critical {
		return InvalidJWT // RFC 7515, section 4.1.11: extensions that are not understood
	}
	now, skew := v.now().Unix(), int64(v.skew/time.Second)
	switch {
	case c.expires < now-skew:
		return ExpiredJWT
	case c.notBefore != nil && *c.notBefore > now+skew:
		return EarlyJWT
	case v.issuer != "" && (c.issuer == nil || *c.issuer != v.issuer):
		return IssuerMismatch
	case v.audience != "" && !slices.Contains(c.audience, v.audience):
		return AudienceMismatch
	}
	return nil
}
