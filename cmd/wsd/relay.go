package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/openstate"
	"github.com/wsd-dev/wsd/server"
)

// relayListen is where a relay listens that is told nothing.
const relayListen = "http://127.0.0.1:45679"

// memoryState is the state that ends with the relay.
const memoryState = "memory:"

// Limits of a relay's HTTP server.
const (
	relayHeaderTimeout = 10 * time.Second
	relayIdleTimeout   = 2 * time.Minute
	relayHeaderBytes   = 16 << 10
	relayDrainTimeout  = 10 * time.Second
	relayAnswerTimeout = 3 * time.Second // of that for requests under way
	relayNewcomers     = 8192            // connections that are no sockets, or not yet
)

// relayShare is how many sockets, and how many other connections, a relay has room for
// that may have so many files open: a quarter is left for all else.
func relayShare(files uint64) (sockets, newcomers int) {
	return int(min(files/2, rendezvous.MaxSockets)), int(min(files/4, relayNewcomers))
}

// newcomers bounds the connections that are no sockets. Behind a proxy all have one address.
func (o *relayOptions) newcomers(most int, log *slog.Logger) *server.Newcomers {
	if o.behindProxy {
		return server.NewNewcomers(most, 0, log)
	}
	return server.NewNewcomers(most, most/2, log)
}

// relayOptions are the flags of wsd relay.
type relayOptions struct {
	listen      string
	publicURL   string
	nodeURL     string
	nodeID      string
	state       string
	auditLog    string
	behindProxy bool
	tls         server.TLSFiles
	log         logOptions
}

const relayLong = `Runs a relay: executors that no connection can reach register here, and clients
meet them. It passes on what it cannot read.

  wsd relay token create --role executor --environment lab    for the machine
  wsd relay token create --role harness --environment lab     for whoever uses it

  wsd serve --remote URL --environment-id lab --token-file executor.token
  wsd exec --connect relay://HOST/lab --token-file harness.token -- uname -a

Once it accepts connections it prints its URL, and nothing else, on standard
output. An address that other machines can reach is refused without TLS, unless
a proxy in front does that (--behind-proxy).

SIGTERM or SIGINT ends it: connections are closed, and come back by themselves
when it does. Several nodes share their state in NATS: see docs/relay-cluster.md.

Exit status: 0 after SIGTERM or SIGINT; 1 when it cannot run; 2 a command line
that wsd does not understand.`

const relayExample = `  wsd relay
  wsd relay --listen https://0.0.0.0:443 --public-url https://relay.example --tls-cert cert.pem --tls-key key.pem
  wsd relay --listen http://0.0.0.0:8080 --behind-proxy --public-url https://relay.example --audit-log audit.jsonl`

func newRelayCmd(a *app) *cobra.Command {
	o := &relayOptions{}
	cmd := &cobra.Command{
		Use:     "relay",
		Short:   "Run a relay for machines that cannot be reached",
		Long:    relayLong,
		Example: relayExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.relay(cmd, o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", relayListen, "where to listen: `URL` is http://IP:PORT, or https with --tls-cert")
	f.StringVar(&o.publicURL, "public-url", "", "others reach the relay at `URL` (default where it listens)")
	f.StringVar(&o.nodeURL, "node-url", "", "this one of several nodes is reached at `URL` (default --public-url)")
	f.StringVar(&o.nodeID, "node-id", "", "the node is called `ID` (default one by chance)")
	addStateFlag(f, &o.state)
	f.StringVar(&o.auditLog, "audit-log", "", "append who comes and goes to `PATH`, a line of JSON each; - is standard error")
	f.BoolVar(&o.behindProxy, "behind-proxy", false, "a proxy in front does TLS and sets X-Forwarded-For, and there is no other way in")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "serve TLS with the PEM certificate chain in `PATH`")
	f.StringVar(&o.tls.Key, "tls-key", "", "the private key of --tls-cert is in `PATH`")
	o.log.addFlags(f, "info")
	cmd.AddCommand(newRelayTokenCmd(a), newRelayStatusCmd(a))
	return cmd
}

func addStateFlag(f *pflag.FlagSet, state *string) {
	f.StringVar(state, "state", "", "the relay's `STATE`: sqlite:PATH, nats://HOST:PORT or, for\na trial, memory: (default sqlite in your state directory)")
}

// parseState reads a --state value.
func parseState(value string) (openstate.Place, error) {
	place, err := openstate.Parse(value)
	if err != nil {
		return place, usagef("write --state sqlite:PATH", "invalid value for --state: %w", err)
	}
	return place, nil
}

// check finds what the flags got wrong, and returns the URL to listen at.
func (o *relayOptions) check(cmd *cobra.Command) (*url.URL, error) {
	hint := helpHint(cmd)
	u, err := url.Parse(o.listen)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return nil, usagef("write --listen "+relayListen, "invalid value %q for --listen: want http://IP:PORT or https://IP:PORT", o.listen)
	case (o.tls.Cert != "" || o.tls.Key != "") && u.Scheme == "http":
		return nil, usagef("write --listen https://"+u.Host, "--listen %s does not use the certificate", o.listen)
	case u.Scheme == "https" && o.tls.Cert == "":
		return nil, usagef(hint, "--listen %s needs --tls-cert and --tls-key", o.listen)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil, usagef("write --listen "+relayListen, "invalid value %q for --listen: %q is no IP address", o.listen, u.Hostname())
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if !addr.IsLoopback() && u.Scheme == "http" && !o.behindProxy {
		return nil, usagef("give it a certificate with --tls-cert and --tls-key, or say --behind-proxy if a proxy does TLS",
			"a relay that other machines reach needs TLS: %s is not a loopback address", u.Hostname())
	}
	for flag, value := range map[string]string{"--public-url": o.publicURL, "--node-url": o.nodeURL} {
		if value == "" {
			continue
		}
		u, err := registry.ParseBaseURL(value)
		if err != nil {
			return nil, usagef(hint, "invalid value for %s: %w", flag, err)
		}
		if u.Scheme == "http" && !registry.Loopback(u) {
			return nil, usagef("write "+flag+" https://"+u.Host, "invalid value for %s: nobody sends a token to %s without TLS", flag, u.Host)
		}
	}
	if addr.IsUnspecified() && o.publicURL == "" {
		return nil, usagef("write --public-url https://NAME", "nobody can connect to %s: say with --public-url where the relay is reached", u.Hostname())
	}
	return u, o.log.check(hint)
}

// relay runs a relay until a signal comes.
func (a *app) relay(cmd *cobra.Command, o *relayOptions) error {
	u, err := o.check(cmd)
	if err != nil {
		return err
	}
	place, err := parseState(o.state)
	if err != nil {
		return err
	}
	tuneGC(os.Getenv, passingGrowth)
	a.outliveReaders()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends wsd the hard way
	log := o.log.logger(a.stderr)
	o.tls.Logger = log
	secure, err := o.tls.Config()
	if err != nil {
		return err
	}
	audit, closeAudit, err := openAudit(a, o.auditLog)
	if err != nil {
		return err
	}
	defer closeAudit()
	state, err := place.Open(ctx, log)
	if err != nil {
		return err
	}
	defer state.Close()
	defer o.private(place).register(log)()

	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", u.Host)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = withHint(err, "is a relay running already? --listen http://127.0.0.1:0 picks a free port")
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	room, err := openFiles()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	sockets, newcomers := relayShare(room)
	u.Host, u.Path = listener.Addr().String(), ""
	public := o.publicURL
	if public == "" {
		public = u.String()
	}
	node, err := rendezvous.New(rendezvous.Config{
		State: state, PublicURL: public, NodeURL: o.nodeURL, NodeID: o.nodeID, TrustProxy: o.behindProxy, MaxSockets: sockets,
		Audit: audit, Logger: log,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	if err := a.greetOperator(ctx, state, o.state); err != nil {
		return errors.Join(err, listener.Close())
	}
	if _, err := fmt.Fprintln(a.stdout, u); err != nil {
		return errors.Join(fmt.Errorf("print the URL: %w", err), listener.Close())
	}
	return runNode(ctx, node, listener, o.newcomers(newcomers, log), log)
}

// private returns what no sandbox of the user's servers gives access to.
func (o *relayOptions) private(place openstate.Place) *privatePaths {
	p := newPrivatePaths()
	p.addStore(place.File)
	p.add(place.Secrets()...)
	p.add(o.tls.Key)
	if o.auditLog != "-" {
		p.add(o.auditLog)
	}
	return p
}

// greetOperator tells the operator of a relay that nobody can use yet what to do. The
// tokens of a relay that keeps its state in memory can be made by no other command.
func (a *app) greetOperator(ctx context.Context, state rendezvous.State, value string) error {
	tokens := rendezvous.Tokens{State: state}
	there, err := tokens.List(ctx)
	if err != nil || len(there) > 0 {
		return err
	}
	if value == memoryState {
		return a.lendTokens(ctx, tokens)
	}
	switch {
	case strings.Contains(value, "@"): // a password may be in it
		value = " --state STATE"
	case value != "":
		value = " --state '" + value + "'"
	}
	_, err = fmt.Fprintf(a.stderr, `There are no tokens yet, so nobody can use this relay. Make one for each side:
  wsd relay token create --role executor --environment lab%[1]s
  wsd relay token create --role harness --environment lab%[1]s
`, value)
	return err
}

// lendTokens makes a token for each side and prints them: they end with the relay.
func (a *app) lendTokens(ctx context.Context, tokens rendezvous.Tokens) error {
	for _, role := range []rendezvous.Role{rendezvous.RoleExecutor, rendezvous.RoleHarness} {
		_, secret, err := tokens.Create(ctx, rendezvous.Token{Role: role, Environment: rendezvous.AnyEnvironment})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.stderr, "%s=%s  # role %s, until this relay ends\n", envToken, secret, role); err != nil {
			return err
		}
	}
	return nil
}
