package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Modes of Config.
const (
	ModeCapabilityToken   = "capability-token"
	ModeSignedBearerToken = "signed-bearer-token"
)

// DefaultClockSkew is how far the clocks of the two ends may differ.
const DefaultClockSkew = 30 * time.Second

// Config is the settings of the command line. Those of a mode that is not chosen must
// be empty.
type Config struct {
	// Mode is ModeCapabilityToken, ModeSignedBearerToken, or empty for no policy.
	Mode string

	// TokenFile holds the capability token, TokenSHA256 its digest in 64 hex digits;
	// one of them is given.
	TokenFile   string
	TokenSHA256 string

	// Secret is a capability token itself. It needs no Mode, and excludes one.
	Secret Secret

	// SharedSecretFile holds the key of the signatures, 32 bytes or more.
	SharedSecretFile string
	// Issuer and Audience, unless empty, are what the claims iss and aud must be or,
	// for aud, contain.
	Issuer   string
	Audience string
	// ClockSkew is how far exp and nbf may be off; nil means DefaultClockSkew.
	ClockSkew *time.Duration
}

// A Policy accepts or refuses requests.
type Policy struct {
	check    func(token string) error
	warnings []string
}

// Warnings says what is weak about the policy; nothing for nil.
func (p *Policy) Warnings() []string {
	if p == nil {
		return nil
	}
	return p.warnings
}

// New makes the Policy that cfg describes; nil without a Mode.
func New(cfg Config) (*Policy, error) {
	capability := cfg.TokenFile != "" || cfg.TokenSHA256 != ""
	signed := cfg.SharedSecretFile != "" || cfg.Issuer != "" || cfg.Audience != "" || cfg.ClockSkew != nil
	if len(cfg.Secret) > 0 {
		if cfg.Mode != "" || capability || signed {
			return nil, errors.New("a secret of the environment or of --secret excludes --ws-auth")
		}
		return tokenPolicy(sha256.Sum256(cfg.Secret), checkToken(cfg.Secret)), nil
	}
	switch cfg.Mode {
	case "":
		if capability || signed {
			return nil, errors.New("settings for tokens need --ws-auth capability-token or --ws-auth signed-bearer-token")
		}
		return nil, nil
	case ModeCapabilityToken:
		if signed {
			return nil, errors.New("--ws-shared-secret-file, --ws-issuer, --ws-audience and --ws-max-clock-skew-seconds need --ws-auth signed-bearer-token")
		}
		return newCapability(cfg)
	case ModeSignedBearerToken:
		if capability {
			return nil, errors.New("--ws-token-file and --ws-token-sha256 need --ws-auth capability-token")
		}
		return newSigned(cfg)
	default:
		return nil, fmt.Errorf("unknown --ws-auth mode %q: want %s or %s", cfg.Mode, ModeCapabilityToken, ModeSignedBearerToken)
	}
}

// A Refusal is why a request was refused. Its text is for the client and tells no
// more than the wire's seven bodies do.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// The refusals.
const (
	MissingToken     Refusal = "missing websocket bearer token"
	InvalidHeader    Refusal = "invalid authorization header"
	InvalidToken     Refusal = "invalid websocket bearer token"
	InvalidJWT       Refusal = "invalid websocket jwt"
	ExpiredJWT       Refusal = "expired websocket jwt"
	EarlyJWT         Refusal = "websocket jwt is not valid yet"
	IssuerMismatch   Refusal = "websocket jwt issuer mismatch"
	AudienceMismatch Refusal = "websocket jwt audience mismatch"
)

// Authorize returns nil for a request that may pass, else a Refusal, the body of a 401.
func (p *Policy) Authorize(r *http.Request) error {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		return MissingToken
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return InvalidHeader
	}
	return p.check(token)
}

// minTokenBytes is the length below which a capability token may be found by trying.
const minTokenBytes = 16

// checkToken returns a warning about a token that is too short.
func checkToken(token []byte) []string {
	if len(token) >= minTokenBytes {
		return nil
	}
	return []string{fmt.Sprintf("the token has %d bytes, and may be guessed: take %d or more, as 'openssl rand -hex 32' prints", len(token), minTokenBytes)}
}

// readSecret reads a file that holds a secret, blanks around it left out. It refuses one
// that others may write, and warns of one that they may read.
func readSecret(what, path string) (secret Secret, warnings []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", what, err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular(): // a pipe of a shell
	case mode&0o022 != 0:
		return nil, nil, fmt.Errorf("read %s: %s can be written by others than its owner (mode %04o), who could get in then: chmod go-w %s", what, path, mode.Perm(), path)
	case mode&0o044 != 0:
		warnings = append(warnings, fmt.Sprintf("%s file %s can be read by others than its owner (mode %04o): chmod 600 %s", what, path, mode.Perm(), path))
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", what, err)
	}
	return Secret(strings.TrimSpace(string(b))), warnings, nil
}
