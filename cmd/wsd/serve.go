package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/auth"
	"github.com/wsd-dev/wsd/server/execserver"
	"github.com/wsd-dev/wsd/server/workspace"
)

// Where the two spellings of the command listen that are told nothing.
const (
	serveURL      = "ws://127.0.0.1:45678"
	execServerURL = server.DefaultListenURL
)

// envExitOnStdinClose is the original's variable for --exit-on-stdin-close.
const envExitOnStdinClose = "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"

// serveOptions are the flags of wsd serve.
type serveOptions struct {
	listen      string
	auth        auth.Config
	skewSeconds uint32
	tls         server.TLSFiles
	anyUser     bool
	hosts       []string
	concurrency int
	grace       time.Duration
	memory      memorySize
	stdinClose  bool
	remote      remoteOptions
	forward     string
	workspace   workspaceOptions
	history     historyFlags
	observe     observeOptions
	log         logOptions
}

const serveLong = `Serves the current directory: whoever connects can run commands and read and
write files as you. Once it accepts connections it prints its URL, and nothing
else, on standard output. Other wsd commands of yours find it by themselves.

A port of this machine lets in processes of your own user and of root, unless a
token, a secret or client certificates say who comes in (--any-local-user: all).
An address that other machines can reach is refused without authentication
(--ws-auth, --secret) or client certificates (--tls-client-ca).` + remoteHelp + `

With --workspace it also keeps a durable record of a directory, synchronises it
with whoever connects ('wsd sync', @cloudflare/computer), and runs commands whose
output can be replayed. These variables then count unless a flag says otherwise:
PORT, MOUNT_POINT, RPC_CLIENT_SECRET (the secret; listens on all addresses if PORT
is set, too), MOUNT_IGNORE (**/NAME,...), EXEC_LOG_MAX_BYTES (of a command).

SIGTERM or SIGINT ends it: connections are closed, everything it runs is killed.

Exit status: 0 after SIGTERM, SIGINT or, with stdio, the end of the input;
1 when it cannot serve; 2 a command line that wsd does not understand; 3 another
executor has its keys and its place at the relay.`

const serveExample = `  wsd serve
  wsd serve --listen unix:///tmp/wsd.sock
  wsd serve --listen ws://0.0.0.0:45678 --ws-auth capability-token --ws-token-file token
  wsd serve --listen ws://127.0.0.1:0 --metrics --log-format json
  wsd serve --remote https://relay.example --environment-id lab --token-file executor.token
  wsd serve --workspace ~/project
  PORT=45678 RPC_CLIENT_SECRET=... wsd serve --workspace /workspace`

func newServeCmd(a *app) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve the current directory",
		Long:    serveLong,
		Example: serveExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, o) },
	}
	o.addFlags(cmd.Flags(), serveURL, "info")
	return cmd
}

// newExecServerCmd is serve as the original spells it, so that wsd can take its
// place in a harness that starts its own server.
func newExecServerCmd(a *app) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "exec-server",
		Short: "Serve as 'codex exec-server' does",
		Long: `The same as 'wsd serve' under the name, and with the default for --listen, that
harnesses know from 'codex exec-server': put wsd where they start codex.

Exit status: as 'wsd serve'.`,
		Example: "  wsd exec-server --listen ws://127.0.0.1:0\n  wsd exec-server --listen stdio",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, o) },
	}
	o.addFlags(cmd.Flags(), execServerURL, "warn")
	cmd.AddCommand(newForwardCmd(a))
	return cmd
}

func (o *serveOptions) addFlags(f *pflag.FlagSet, listen, logLevel string) {
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", listen, "where to listen: `URL` is ws://IP:PORT (port 0 picks one),\nunix:///PATH, or stdio")
	f.StringVar(&o.auth.Mode, "ws-auth", "", "ask connections for a bearer token; `MODE` is capability-token or\nsigned-bearer-token")
	f.StringVar(&o.auth.TokenFile, "ws-token-file", "", "the capability token is the content of `PATH`")
	f.StringVar(&o.auth.TokenSHA256, "ws-token-sha256", "", "the capability token has the SHA-256 digest `HEX`")
	f.StringVar(&o.auth.SharedSecretFile, "ws-shared-secret-file", "", "signed tokens are HS256 JWTs under the content of `PATH`,\n32 bytes or more")
	f.StringVar(&o.auth.Issuer, "ws-issuer", "", "signed tokens must be issued by `NAME`")
	f.StringVar(&o.auth.Audience, "ws-audience", "", "signed tokens must be meant for `NAME`")
	f.Uint32Var(&o.skewSeconds, "ws-max-clock-skew-seconds", 30, "clocks of issuer and server may differ by `SECONDS`")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "serve TLS with the PEM certificate chain in `PATH`")
	f.StringVar(&o.tls.Key, "tls-key", "", "the private key of --tls-cert is in `PATH`")
	f.StringVar(&o.tls.ClientCA, "tls-client-ca", "", "ask for client certificates signed by an authority in `PATH`")
	f.BoolVar(&o.anyUser, "any-local-user", false, "without authentication, let every user of this machine in at a\nloopback port, not only yourself and root")
	f.StringArrayVar(&o.hosts, "allowed-host", nil, "without authentication, also answer requests for the host `NAME`;\nmay be given again")
	f.IntVar(&o.concurrency, "concurrent-requests", rpc.DefaultConcurrency, "run `COUNT` requests of a connection at a time; 1 is one by one")
	durationFlag(f, &o.grace, "session-grace", protocol.SessionGrace, "for a `DURATION` a session whose connection is lost keeps its processes\nand can be resumed; 0s ends them with the connection")
	f.Var(&o.memory, "memory-budget", "all connections together hold at most `SIZE` of messages, answers and\nbodies, such as 512M or 2G; a quarter of the memory there is by default")
	f.BoolVar(&o.stdinClose, "exit-on-stdin-close", false, "end when standard input is closed")
	o.remote.addFlags(f)
	addForwardFlag(f, &o.forward)
	o.workspace.addFlags(f)
	o.history.add(f)
	o.observe.addFlags(f)
	o.log.addFlags(f, logLevel)
}

// check finds what the flags themselves got wrong.
func (o *serveOptions) check(cmd *cobra.Command) error {
	hint := helpHint(cmd)
	switch mode := o.auth.Mode; {
	case o.concurrency < 1:
		return usagef("--concurrent-requests 1 runs them one by one", "invalid value %d for --concurrent-requests: it must be 1 or more", o.concurrency)
	case o.grace < 0:
		return usagef("--session-grace 0s ends a session with its connection", "invalid value %v for --session-grace: it must not be negative", o.grace)
	case cmd.Flags().Changed("ws-auth") && mode != auth.ModeCapabilityToken && mode != auth.ModeSignedBearerToken:
		return usagef(hint, "invalid value %q for --ws-auth: want %s or %s", mode, auth.ModeCapabilityToken, auth.ModeSignedBearerToken)
	}
	if cmd.Flags().Changed("ws-max-clock-skew-seconds") {
		skew := time.Duration(o.skewSeconds) * time.Second
		o.auth.ClockSkew = &skew
	}
	if os.Getenv(envExitOnStdinClose) != "" {
		o.stdinClose = true
	}
	if o.forward != "" && !o.remote.enabled() {
		return usagef("write --remote https://HOST", "--forward is for serving over a relay, and --remote does not say which")
	}
	if o.forward != "" && cmd.Flags().Changed("listen") {
		return usagef("serve it where it is, or put a second wsd in front", "--forward passes on another server, which --listen does not serve")
	}
	if err := o.remote.check(cmd); err != nil {
		return err
	}
	if err := o.workspace.check(cmd, o); err != nil {
		return err
	}
	if err := o.history.check(); err != nil {
		return err
	}
	return o.log.check(hint)
}

// serve runs a server until a signal or the end of its input.
func (a *app) serve(cmd *cobra.Command, o *serveOptions) (err error) {
	if err := o.check(cmd); err != nil {
		return err
	}
	if err := o.remote.learn(a); err != nil {
		return err
	}
	wire := a.stdout // with stdio
	a.outliveReaders()
	if o.forward != "" {
		return a.forward(cmd.Context(), &o.remote, o.forward, o.log.logger(a.stderr))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends wsd the hard way
	if o.stdinClose {
		ctx = a.untilInputEnds(ctx)
	}
	policy, err := auth.New(o.auth)
	if err != nil {
		return err
	}
	log, version := o.log.logger(a.stderr), readBuildInfo().Version
	forgetSecrets(o.workspace.secret != "", log)
	o.workspace.secret = ""
	for _, warning := range policy.Warnings() {
		log.Warn(warning)
	}
	watching, err := o.observe.start(ctx, version, log)
	if err != nil {
		return err
	}
	defer watching.close(log)
	private := o.private()
	limiter := limit.New(log)
	defer limiter.Close()
	var workspaceAlias sandbox.Alias
	box := sandbox.New(sandbox.Config{Logger: log, Private: private.list, Alias: func() sandbox.Alias { return workspaceAlias }})
	defer box.Close()
	defer reapOrphans(ctx, stop, log)()

	audit, closeAudit, err := o.history.openAudit(a, log)
	if err != nil {
		return err
	}
	defer closeAudit()
	ws, err := o.workspace.open(ctx, cmd, &o.history, audit, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ws.Close()) }() // when nobody uses it any more
	if ws != nil {
		tuneGC(os.Getenv, indexingGrowth)
		private.addStore(ws.Store)
		workspaceAlias = sandbox.Alias{Name: ws.MountPoint, Path: ws.Dir}
	}
	commands := new(commandLog) // of a server without a workspace, which has its own
	if ws == nil {
		if commands, err = o.history.open(ctx, audit, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, commands.Close()) }()
	}
	directory := process.NewDirectory()
	budget := o.memory.budget()
	cfg := execserver.Config{
		Budget:  budget,
		Version: version, SessionGrace: o.sessionGrace(), Concurrency: o.concurrency, Directory: directory, Logger: log,
		Sandbox: box, Confines: runtime.GOOS == "linux", Observer: watching.observer(), Workspace: ws,
		Limiter: limiter, Recorder: commands.rec, NoHistory: o.history.mode == historyOff,
	}
	srv, err := execserver.New(cfg)
	if err != nil {
		return err
	}
	var far *remote
	if o.remote.enabled() {
		far, err = o.remote.open(a, log, func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
			_ = srv.ServeConnection(ctx, conn, server.ConnectionOptions{Remote: "relay " + info.Peer.String(), RequestID: info.ID}) // logged there
		})
		if err != nil {
			return errors.Join(err, srv.Close())
		}
		private.add(far.files...)
		if !cmd.Flags().Changed("listen") {
			defer private.register(log)()
			return runBoth(ctx, srv, far)
		}
	}
	endpoint, err := srv.Listen(o.endpoint(a, wire, policy, server.HTTPConfig{
		Version: version, Processes: directory.Running, Metrics: watching.page(srv, directory.Running), Routes: execserver.Routes(srv, cfg),
	}))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = withHint(err, "'wsd doctor' lists your servers; --listen ws://127.0.0.1:0 picks a free port")
	}
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	if endpoint.URL() != stdioURL {
		defer o.announce(endpoint.URL(), version, ws, private, log)()
		if _, err := fmt.Fprintln(a.stdout, endpoint.URL()); err != nil {
			return errors.Join(fmt.Errorf("print the URL: %w", err), endpoint.Close(), srv.Close())
		}
	}
	if endpoint.URL() == stdioURL {
		a.stdout = io.Discard // it carries messages, and no URL of a relay
		if ws != nil || far != nil {
			defer private.register(log)()
		}
	}
	return runBoth(ctx, srv, far, endpoint)
}

// private returns what no sandbox of this server gives access to.
func (o *serveOptions) private() *privatePaths {
	p := newPrivatePaths()
	if o.history.audit != "-" {
		p.add(o.history.audit)
	}
	p.add(o.auth.TokenFile, o.auth.SharedSecretFile, o.tls.Key, socketPath(o.listen), os.Getenv(envTokenFile))
	return p
}

// runBoth serves endpoints and, if there is one, the relay's streams, until ctx ends or
// one of them does.
func runBoth(ctx context.Context, srv *server.Server, far *remote, endpoints ...*server.Endpoint) error {
	if far == nil {
		return srv.Run(ctx, endpoints...)
	}
	both, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	defer end()
	both.Go(func() error {
		defer end()
		return far.run(ctx)
	})
	both.Go(func() error {
		defer end()
		return srv.Run(ctx, endpoints...)
	})
	return both.Wait()
}

// reapOrphans collects the orphans that fall to this process, as PID 1 must; what it
// returns stops that.
func reapOrphans(ctx context.Context, stop func(), log *slog.Logger) func() {
	done := make(chan struct{})
	go func() { // ends with ctx, and is waited for
		defer close(done)
		if err := process.Reap(ctx, log); err != nil {
			log.Error("orphans are not collected", "err", err)
		}
	}()
	return func() { stop(); <-done }
}

// stdioURL is the URL of an endpoint on standard input and output.
const stdioURL = "stdio"

// sessionGrace is the grace as package server has it, where 0 is the default.
func (o *serveOptions) sessionGrace() time.Duration {
	if o.grace == 0 {
		return -1
	}
	return o.grace
}

func (o *serveOptions) endpoint(a *app, wire io.Writer, policy *auth.Policy, http server.HTTPConfig) server.EndpointConfig {
	cfg := server.EndpointConfig{URL: o.listen, TLS: o.tls, AnyLocalUser: o.anyUser, AllowedHosts: o.hosts, Stdout: wire, HTTP: http}
	if policy != nil {
		cfg.HTTP.Authorize = policy.Authorize
	}
	if in, ok := a.stdin.(io.ReadCloser); ok {
		cfg.Stdin = in
	} else {
		cfg.Stdin = io.NopCloser(a.stdin)
	}
	return cfg
}

// announce tells this user's client commands of the server; what it returns takes
// that back. A server that cannot be found still serves.
func (o *serveOptions) announce(url, version string, ws *workspace.Workspace, private *privatePaths, log *slog.Logger) (withdraw func()) {
	cwd, err := os.Getwd()
	if err != nil {
		log.Warn("working directory is not known", "err", err)
	}
	dir, err := userRuntimeDir()
	var reg *registration
	if err == nil {
		s := runningServer{
			URL: dialable(url), PID: os.Getpid(), StartedAt: time.Now(), Version: version, Cwd: cwd,
			TokenFile: absolute(o.auth.TokenFile), CertFile: absolute(o.tls.Cert), Private: private.own,
		}
		if ws != nil {
			s.Workspace, s.Store = ws.Dir, ws.Store
		}
		reg, err = dir.register(s)
	}
	if err != nil {
		log.Warn("client commands will not find this server; give them --connect", "err", err)
		return func() {}
	}
	return func() {
		if err := reg.Close(); err != nil {
			log.Warn("runtime file was not removed", "err", err)
		}
	}
}

// untilInputEnds is ctx, ended when standard input does.
func (a *app) untilInputEnds(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the input or, as nothing interrupts a read of it, with wsd
		_, _ = io.Copy(io.Discard, a.stdin)
		cancel()
	}()
	return ctx
}

// absolute is path as seen from any directory; empty stays empty.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// dialable is a listening URL as a client on this machine dials it.
func dialable(url string) string {
	for _, any := range []struct{ all, loopback string }{{"://0.0.0.0:", "://127.0.0.1:"}, {"://[::]:", "://[::1]:"}} {
		url = strings.Replace(url, any.all, any.loopback, 1)
	}
	return url
}
