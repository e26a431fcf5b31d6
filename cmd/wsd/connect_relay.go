package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/trust"
)

// relayFlags are those of client commands for relay URLs alone.
type relayFlags struct {
	known    string
	identity string
	trace    string
}

func (f *relayFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.known, "known-executors", "", "keep the keys of executors behind relays in `FILE`\n(default known_executors in your configuration)")
	flags.StringVar(&f.identity, "client-identity", "", "keep the keys that executors know this client by in `FILE`\n(default client.json in your configuration)")
	flags.StringVar(&f.trace, "trace", "", "write a line of JSON about each frame of a relay to `FILE`; - is standard error")
}

// clientIdentityPath is where a person's own keys are kept.
func clientIdentityPath() (string, error) {
	dir, err := trust.DefaultDir()
	if err != nil {
		return "", fmt.Errorf("no place for the client's identity: %w; say --client-identity FILE", err)
	}
	return filepath.Join(dir, "client.json"), nil
}

// options completes o for a relay URL; what it returns ends the trace.
func (f *relayFlags) options(a *app, o *client.RelayOptions) (func(), error) {
	path, err := f.identity, error(nil)
	if path == "" {
		if path, err = clientIdentityPath(); err != nil {
			return nil, err
		}
	}
	if o.Identity, err = trust.Identity(path); err != nil {
		return nil, err
	}
	o.KnownExecutors = f.known
	o.Unknown = func(name string, key seal.Fingerprint) error {
		return say(a.stderr, "wsd: %s is new here; its key %s will be remembered", name, key)
	}
	if f.trace == "" {
		return func() {}, nil
	}
	w, end := a.stderr, func() {}
	if f.trace != "-" {
		file, err := os.OpenFile(f.trace, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the trace: %w", err)
		}
		w, end = file, func() { _ = file.Close() }
	}
	o.Trace = traceTo(w)
	return end, nil
}

// traceTo writes a line of JSON for each frame.
func traceTo(w io.Writer) relay.Trace {
	var mu sync.Mutex
	enc := json.NewEncoder(w)
	return func(e relay.TraceEvent) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(e) // a trace that cannot be written must not hold up what it traces
	}
}

// dialRelay connects over a relay. The trace ends with wsd.
func (f *connectFlags) dialRelay(ctx context.Context, a *app, url string, opts client.Options) (*client.Client, error) {
	tuneGC(os.Getenv, passingGrowth)
	if _, err := client.ParseRelayURL(url); err != nil {
		return nil, usagef("write --connect relay://HOST/ENVIRONMENT", "%w", err)
	}
	if opts.TLSConfig == nil {
		var err error
		if opts.TLSConfig, err = registry.TLSConfig(os.Getenv); err != nil {
			return nil, err
		}
	}
	end, err := f.relay.options(a, &opts.Relay)
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, url, &opts)
	if err != nil {
		end()
	}
	return c, explainRelay(url, err)
}

// explainRelay says what a user may do about a connection over a relay that failed.
func explainRelay(url string, err error) error {
	if err == nil {
		return nil
	}
	hint := relayHint(err)
	if _, onTheWay := errors.AsType[*harness.StepError](err); !onTheWay && errors.Is(err, rpc.ErrClosed) {
		hint = notServedHint
	}
	return withHint(fmt.Errorf("connect to %s: %w", url, err), hint)
}

// notServedHint is for an executor that is reached and does not serve.
const notServedHint = "the log of that machine says why it does not serve; if it runs with --forward, is the server there running?"

func relayHint(err error) string {
	if changed, ok := errors.AsType[*trust.KeyChangedError](err); ok {
		if changed.Path == "" {
			return "compare with what 'wsd fingerprint --environment-id ID' prints on that machine"
		}
		return fmt.Sprintf("compare with what 'wsd fingerprint --environment-id ID' prints on that machine; if it is right, remove line %d of %s", changed.Line, changed.Path)
	}
	if errors.Is(err, harness.ErrRejected) {
		return "the machine's own token for the relay has expired or was revoked: its operator gives it another"
	}
	if _, ok := errors.AsType[*harness.ResetError](err); ok {
		return "if it runs with --authorized-keys, what 'wsd fingerprint --client' prints here must be in that file"
	}
	if status, ok := errors.AsType[*registry.StatusError](err); ok {
		switch {
		case status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden:
			return "give a token with --token-file PATH or $" + envToken + "; the relay's operator makes one with 'wsd relay token create --role harness'"
		case status.Code == registry.CodeOffline:
			return "is 'wsd serve --remote' running there? 'wsd relay status' at the relay lists who is attached"
		case status.Status == http.StatusTooManyRequests && status.Code != registry.CodeQuota:
			return "wait some minutes; the relay's audit log says what was too much"
		case status.Status == http.StatusTooManyRequests:
			return "close other connections of this token, or have the relay's operator make one with a larger --max-streams"
		}
	}
	if hint := tlsHint(err, "the relay", "relay+http:// for this machine"); hint != "" {
		return hint
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "is the name of the host right?"
	}
	return "'wsd doctor --connect URL' tests each hop"
}
