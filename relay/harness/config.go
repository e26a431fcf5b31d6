package harness

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A Config says whom to reach and how. Registry, EnvironmentID and Identity must be set.
type Config struct {
	Registry      *registry.Client
	EnvironmentID string
	// Identity is kept for all streams.
	Identity *seal.Identity
	// Dial connects to the rendezvous; nil is NewDialer of the zero DialConfig.
	Dial relay.Dialer
	// Verify says whether the executor's key is to be trusted, before any byte of a
	// handshake leaves. nil trusts the registry. It is asked once: later every key must
	// be the same. It must not call the Harness.
	Verify func(key *seal.PublicKey) error
	// VerifyProfile says whether a new stream to the executor with that key may have the
	// profile that the registry's answer leads to; nil takes any. It is not asked if
	// Profile is set.
	VerifyProfile func(key *seal.PublicKey, profile frame.Profile) error

	// Profile is what streams have; "" is the reliable one where the registry announces
	// it, and the codex one elsewhere.
	Profile frame.Profile
	// StreamLife is how long a reliable stream outlives contact with its executor; 0 is
	// the default of relay/arq.
	StreamLife time.Duration

	// OnStep, if set, is told of each step towards a stream, or towards a new socket of
	// one, when it is over. It must not wait.
	OnStep func(StepReport)
	Trace  relay.Trace
	Logger *slog.Logger
	// Rand spreads waits; nil is seeded by chance. The Harness owns it from then on.
	Rand *rand.Rand
}

// check says what is missing.
func (c *Config) check() error {
	switch {
	case c.Registry == nil:
		return errors.New("harness: no registry")
	case c.Identity == nil:
		return errors.New("harness: no identity")
	case c.Profile != "" && c.Profile != frame.Codex && c.Profile != frame.Reliable:
		return errors.New("harness: unknown profile " + string(c.Profile))
	}
	return registry.CheckEnvironmentID(c.EnvironmentID)
}

// A Step is one on the way to a stream.
type Step string

// The steps, in their order.
const (
	// StepRegistry asks the registry where the executor is.
	StepRegistry Step = "registry"
	// StepKey looks at the executor's key.
	StepKey Step = "key"
	// StepUpgrade makes a socket to the rendezvous.
	StepUpgrade Step = "upgrade"
	// StepHandshake makes certain of the executor.
	StepHandshake Step = "handshake"
)

// A StepReport tells of a step that is over.
type StepReport struct {
	Step  Step
	Began time.Time
	Took  time.Duration
	Err   error
}
