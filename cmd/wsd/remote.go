package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/trust"
)

// Environment variables of an executor. Where two are named the first wins.
var (
	envAPIKeys = []string{"WSD_API_KEY", "CODEX_API_KEY"}
	envHomes   = []string{"WSD_HOME", "CODEX_HOME"}
)

// remoteOptions are the flags that serve over a relay.
type remoteOptions struct {
	urls        []string
	environment string
	name        string
	identity    string
	authorized  string
	life        time.Duration
	caFile      string

	tokenFile      string
	bearerStdin    bool
	chatGPTStdin   bool
	chatGPTAccount string

	cred  registry.Credential // once it is known
	login string              // the file that it is from, of codex
}

const remoteHelp = `

With --remote it serves over a relay instead: it connects to the relay by itself,
so that nothing need reach it, and clients use --connect relay://HOST/ID. What
passes is encrypted between the two ends. It says who it is to the relay with a
token: --token-file, $WSD_TOKEN or $WSD_TOKEN_FILE, or one of the ways that codex
has. With --listen as well it serves both ways; without, it opens no port.

The machine's keys are made once and kept, for each environment id, in your
configuration (or in the FILE of --identity), so that clients know it again.`

func (o *remoteOptions) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.urls, "remote", nil, "serve over the relay at `URL`; several nodes of one relay\nwith commas between")
	f.StringVar(&o.environment, "environment-id", "", "register there as `ID`")
	f.StringVar(&o.name, "name", "", "taken and not used, as in the original: a `NAME` for people")
	f.StringVar(&o.identity, "identity", "", "keep the keys that clients know this machine by in `FILE`\n(default one for each environment id in your configuration)")
	f.StringVar(&o.authorized, "authorized-keys", "", "let in only clients whose fingerprint is in `FILE`, one a line")
	durationFlag(f, &o.life, "relay-life", 10*time.Minute, "for a `DURATION` a client that lost its connection can go on where it was")
	f.StringVar(&o.caFile, "remote-ca", "", "trust the PEM certificates in `PATH` for the relay and no others")
	f.StringVar(&o.tokenFile, "token-file", "", "the token for the relay is the content of `PATH` (default $"+envTokenFile+",\nor the token itself in $"+envToken+")")
	f.BoolVar(&o.bearerStdin, "registration-bearer-stdin", false, "the token for the relay is the first line of standard input")
	f.BoolVar(&o.chatGPTStdin, "chatgpt-token-stdin", false, "the first line of standard input is a ChatGPT access token")
	f.StringVar(&o.chatGPTAccount, "chatgpt-account-id", "", "the account `ID` that goes with --chatgpt-token-stdin")
}

func (o *remoteOptions) enabled() bool { return len(o.urls) > 0 }

// check finds what the flags themselves got wrong.
func (o *remoteOptions) check(cmd *cobra.Command) error {
	if !o.enabled() {
		for _, flag := range []string{"environment-id", "identity", "authorized-keys", "relay-life", "remote-ca", "token-file", "registration-bearer-stdin", "chatgpt-token-stdin"} {
			if cmd.Flags().Changed(flag) {
				return usagef("write --remote https://HOST", "--%s is for serving over a relay, and --remote does not say which", flag)
			}
		}
		return nil
	}
	if o.environment == "" {
		return usagef("write --environment-id lab, or whatever the relay's operator calls this machine", "--remote needs --environment-id")
	}
	o.environment = strings.TrimSpace(o.environment)
	if err := registry.CheckEnvironmentID(o.environment); err != nil {
		return usagef(helpHint(cmd), "invalid value for --environment-id: %w", err)
	}
	for _, u := range o.urls {
		if _, err := registry.ParseBaseURL(u); err != nil {
			return usagef("write --remote https://HOST", "invalid value for --remote: %w", err)
		}
	}
	if o.life <= 0 {
		return usagef(helpHint(cmd), "invalid value %v for --relay-life: it must be longer than nothing", o.life)
	}
	var given []string
	for _, flag := range []string{"token-file", "registration-bearer-stdin", "chatgpt-token-stdin"} {
		if cmd.Flags().Changed(flag) {
			given = append(given, "--"+flag)
		}
	}
	if len(given) > 1 {
		return usagef("give one of them", "%s say twice who this is", strings.Join(given, " and "))
	}
	if o.chatGPTStdin != (o.chatGPTAccount != "") {
		return usagef(helpHint(cmd), "--chatgpt-token-stdin and --chatgpt-account-id go together")
	}
	return nil
}

// firstEnv is the first of the variables that is set, and its value.
func firstEnv(names []string) (name, value string) {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// setOf returns those of the variables that are set, as a shell writes them.
func setOf(names ...string) (set []string) {
	for _, name := range names {
		if os.Getenv(name) != "" {
			set = append(set, "$"+name)
		}
	}
	return set
}

// learn finds out who this is. It comes before anything else that reads standard input.
func (o *remoteOptions) learn(a *app) (err error) {
	if o.enabled() {
		o.cred, err = o.credential(a)
	}
	return err
}

// credential finds what says to the registry who this is: what a flag names, else a
// variable of ours, of which there must be only one, else codex's API key, else its login.
// Those of codex are set for codex, so that beside others they say nothing.
func (o *remoteOptions) credential(a *app) (registry.Credential, error) {
	switch {
	case o.bearerStdin:
		token, err := registry.ReadToken(a.stdin)
		if err != nil {
			return nil, fmt.Errorf("--registration-bearer-stdin: %w", err)
		}
		return registry.Bearer(token)
	case o.chatGPTStdin:
		token, err := registry.ReadToken(a.stdin)
		if err != nil {
			return nil, fmt.Errorf("--chatgpt-token-stdin: %w", err)
		}
		return registry.ChatGPT(token, o.chatGPTAccount)
	}
	if set := setOf(envToken, envTokenFile, envAPIKeys[0]); o.tokenFile == "" && len(set) > 1 {
		return nil, usagef("unset one of them, or name a file with --token-file", "%s say twice who this is", strings.Join(set, " and "))
	}
	token, err := (&connectFlags{tokenFile: o.tokenFile}).token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		return registry.Bearer(token)
	}
	if name, key := firstEnv(envAPIKeys); key != "" {
		cred, err := registry.APIKey(key)
		if err != nil {
			return nil, fmt.Errorf("$%s: %w", name, err)
		}
		return cred, nil
	}
	if _, dir := firstEnv(envHomes); dir != "" {
		o.login = registry.CodexLoginFile(dir)
		return registry.CodexLogin(dir)
	}
	// A login in ~/.codex is not taken unasked: a relay's operator would have the account.
	return nil, usagef("the relay's operator makes one with 'wsd relay token create --role executor --environment "+o.environment+"'",
		"the relay wants to know who this is: give a token with --token-file, $%s or $%s, --registration-bearer-stdin, --chatgpt-token-stdin, $%s, or a login of codex in $%s",
		envToken, envTokenFile, strings.Join(envAPIKeys, " or $"), strings.Join(envHomes, " or $"))
}

// identityPath is where the keys of an environment are kept.
func identityPath(environment string) (string, error) {
	dir, err := trust.DefaultDir()
	if err != nil {
		return "", fmt.Errorf("no place for the identity: %w; say --identity FILE", err)
	}
	return filepath.Join(dir, "identities", environment+".json"), nil
}

// remote is an executor that is about to run.
type remote struct {
	cfg    executor.Config
	client *registry.Client
	target string   // for people and clients
	files  []string // with secrets, or with whom it lets in
}

// open makes the executor that serves streams with serve.
func (o *remoteOptions) open(a *app, log *slog.Logger, serve func(context.Context, rpc.Connection, executor.StreamInfo)) (*remote, error) {
	path, err := o.identity, error(nil)
	if path == "" {
		if path, err = identityPath(o.environment); err != nil {
			return nil, err
		}
	}
	identity, err := trust.Identity(path)
	if err != nil {
		return nil, err
	}
	secure, err := o.tls()
	if err != nil {
		return nil, err
	}
	client, err := registry.New(registry.Config{BaseURLs: o.urls, Credential: o.cred, TLSConfig: secure, Logger: log})
	if err != nil {
		return nil, err
	}
	r := &remote{client: client, target: relayTarget(o.urls[0], o.environment, identity.Public())}
	r.files = []string{path, o.authorized, o.tokenFile, os.Getenv(envTokenFile), o.login}
	r.cfg = executor.Config{
		Registry: client, EnvironmentID: o.environment, Identity: identity, Serve: serve, StreamLife: o.life, Logger: log,
		Dial: relay.NewDialer(relay.DialConfig{TLS: secure, RequestID: true, Logger: log}),
	}
	if o.authorized != "" {
		keys, err := trust.LoadAuthorized(o.authorized)
		if err != nil {
			return nil, fmt.Errorf("--authorized-keys: %w", err)
		}
		r.cfg.Authorize = keys.Check
	}
	var once sync.Once
	r.cfg.OnConnect = func() {
		once.Do(func() {
			log.Info("serving over the relay", "env", o.environment, "key", identity.Public().Fingerprint().String(),
				"connect", "wsd exec --connect "+r.target+" -- COMMAND")
			fmt.Fprintln(a.stdout, r.target) // who reads it may be gone
		})
	}
	return r, nil
}

// run serves until ctx ends.
func (r *remote) run(ctx context.Context) error {
	defer r.client.Close()
	return explainRemote(executor.Run(ctx, r.cfg))
}

// exitReplaced is the exit status of an executor whose keys another one has. A supervisor
// must not start it again: the two would end each other for ever.
const exitReplaced = 3

// explainRemote says what may be done about a registration that was refused.
func explainRemote(err error) error {
	if errors.Is(err, executor.ErrReplaced) {
		return &exitError{exitReplaced, withHint(err, "if this machine is a copy of another one, remove its identity file, so that it gets keys of its own; an old process beside its restart needs nothing more")}
	}
	if _, ok := errors.AsType[*registry.UnreachableError](err); ok {
		return withHint(err, "is the relay running, and is its URL right? 'wsd doctor --connect relay://HOST/ID' tests each hop")
	}
	return err
}

// tls is what --remote-ca or the environment asks for.
func (o *remoteOptions) tls() (*tls.Config, error) {
	if o.caFile == "" {
		return registry.TLSConfig(os.Getenv)
	}
	return (&connectFlags{caFile: o.caFile}).tls("")
}

// relayTarget is the relay URL of an executor, with its fingerprint.
func relayTarget(base, environment string, key *seal.PublicKey) string {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil {
		return ""
	}
	scheme := "relay"
	if registry.Loopback(u) && u.Scheme == "https" {
		scheme = "relay+https"
	}
	return scheme + "://" + u.Host + u.Path + "/" + environment + "#" + key.Fingerprint().String()
}

// remoteArgs lets `wsd --remote URL ...` stand for `wsd serve --remote URL ...`.
func remoteArgs(args []string) []string {
	is := func(arg string) bool { return arg == "--remote" || strings.HasPrefix(arg, "--remote=") }
	if len(args) > 0 && strings.HasPrefix(args[0], "--") && slices.ContainsFunc(args, is) {
		return append([]string{"serve"}, args...)
	}
	return args
}
