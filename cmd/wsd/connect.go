package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/computer"
)

// Environment variables of the client commands. Flags win over them.
const (
	envURL       = "WSD_URL"
	envToken     = "WSD_TOKEN"
	envTokenFile = "WSD_TOKEN_FILE"
)

// clientCommands returns the commands that use a server.
func (a *app) clientCommands() []*cobra.Command {
	return []*cobra.Command{
		newExecCmd(a),
		newLogCmd(a),
		newHistoryCmd(a),
		newAttachCmd(a),
		newShellCmd(a),
		newPsCmd(a),
		newKillCmd(a),
		newLsCmd(a),
		newCatCmd(a),
		newCpCmd(a),
		newSyncCmd(a),
		newGlobCmd(a),
		newGrepCmd(a),
		newWatchCmd(a),
	}
}

// connectHelp is part of the help of every client command.
const connectHelp = `The server is the one of --connect or $WSD_URL; else the one that you started
last with 'wsd serve'; else one that is started for this command and ends with it.`

// connectFlags say which server a command uses.
type connectFlags struct {
	url       string
	tokenFile string
	caFile    string
	certFile  string
	keyFile   string
	timeout   time.Duration
	relay     relayFlags
}

func (f *connectFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "connect", "", "use the server at `URL`: ws://HOST:PORT, wss://HOST:PORT,\nunix:///PATH or relay://HOST/ENVIRONMENT (default $"+envURL+")")
	flags.StringVar(&f.tokenFile, "token-file", "", "send the content of `PATH` as the token (default $"+envTokenFile+",\nor the token itself in $"+envToken+")")
	flags.StringVar(&f.caFile, "tls-ca", "", "trust the PEM certificates in `PATH` and no others")
	flags.StringVar(&f.certFile, "tls-cert", "", "show the server the PEM certificate in `PATH`")
	flags.StringVar(&f.keyFile, "tls-key", "", "the private key of --tls-cert is in `PATH`")
	patienceFlag(flags, &f.timeout, "connect-timeout", 10*time.Second, "give up connecting after this time")
	f.relay.add(flags)
}

// dial connects to the server that the flags, the environment or the runtime files
// name, or starts one.
func (f *connectFlags) dial(ctx context.Context, a *app, opts client.Options) (*client.Client, error) {
	opts.ConnectTimeout = f.timeout
	url := f.url
	if url == "" {
		url = os.Getenv(envURL)
	}
	if url != "" {
		return f.dialURL(ctx, a, url, opts)
	}
	dir, err := userRuntimeDir()
	if err != nil {
		return f.startServer(ctx, a, opts) // there is no place to look
	}
	servers, err := dir.servers()
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return f.startServer(ctx, a, opts)
	}
	return f.dialRunning(ctx, &servers[0], opts)
}

// dialRecorded is dialWorkspace, but for the last server of any kind if none has a workspace.
func (f *connectFlags) dialRecorded(ctx context.Context, a *app, opts client.Options) (*client.Client, error) {
	t, err := f.syncTarget()
	if err == nil {
		return t.dialClient(ctx, a, f, opts)
	}
	dir, dirErr := userRuntimeDir()
	if dirErr != nil {
		return nil, err
	}
	servers, dirErr := dir.servers()
	if dirErr != nil || len(servers) == 0 {
		return nil, err
	}
	opts.ConnectTimeout = f.timeout
	return f.dialRunning(ctx, &servers[0], opts)
}

func (f *connectFlags) dialURL(ctx context.Context, a *app, url string, opts client.Options) (*client.Client, error) {
	var err error
	if opts.BearerToken, err = f.token(); err != nil {
		return nil, err
	}
	if opts.TLSConfig, err = f.tls(""); err != nil {
		return nil, err
	}
	if client.IsRelayURL(url) {
		return f.dialRelay(ctx, a, url, opts)
	}
	if _, err := client.NewTransport(url, &opts); err != nil {
		return nil, usagef("write --connect ws://127.0.0.1:45678, or unset it to use your running server", "%w", err)
	}
	c, err := client.Dial(ctx, url, &opts)
	return c, explainDial(url, err)
}

// dialRunning connects to a server that was found through its runtime file.
func (f *connectFlags) dialRunning(ctx context.Context, s *runningServer, opts client.Options) (*client.Client, error) {
	var err error
	if opts.BearerToken, err = f.token(); err != nil {
		return nil, err
	}
	if opts.BearerToken == "" && s.TokenFile != "" {
		if opts.BearerToken, err = readToken(s.TokenFile); err != nil {
			return nil, err
		}
	}
	if opts.TLSConfig, err = f.tls(s.CertFile); err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, s.URL, &opts)
	return c, explainDial(s.URL, err)
}

// startServer runs this program as the server of this command.
func (f *connectFlags) startServer(ctx context.Context, a *app, opts client.Options) (*client.Client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	argv := []string{self, "serve", "--listen", "stdio", "--log-level", "error"}
	c, err := client.DialCommand(ctx, argv, a.stderr, &opts)
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	return c, nil
}

// explainDial says what a user may do about a failed connection.
func explainDial(url string, err error) error {
	if err == nil {
		return nil
	}
	return withHint(fmt.Errorf("connect to %s: %w", url, err), dialHint(err))
}

// startHint is about a server that does not answer.
const startHint = "is the server running? 'wsd serve' starts one and prints its URL"

const tokenHint = "give the server's token with --token-file PATH or $" + envToken

func dialHint(err error) string {
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		switch {
		case refused.Status == http.StatusUnauthorized:
			return tokenHint
		case strings.Contains(refused.Reason, "HTTP request to an HTTPS server"): // so says net/http
			return "the server speaks TLS: write wss:// for ws://"
		}
		return "is that the URL of a wsd or codex exec-server?"
	}
	if refused, ok := errors.AsType[*computer.RefusedError](err); ok {
		if refused.Status == http.StatusUnauthorized {
			return tokenHint
		}
		return "is that the URL of a wsd with a workspace, or of a computer?"
	}
	if hint := tlsHint(err, "the server", "ws:// for wss://"); hint != "" {
		return hint
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "is the name of the host right?"
	}
	return startHint
}

// tlsHint says what may be done about an error of TLS; "" if err is none. plain is what to
// write for a peer without it.
func tlsHint(err error, who, plain string) string {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "does " + who + " speak TLS? If not, write " + plain
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "trust " + who + "'s certificate with --tls-ca PATH"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // a TLS alert
		return who + " may want a client certificate: --tls-cert PATH --tls-key PATH"
	}
	return ""
}

func (f *connectFlags) token() (string, error) {
	if f.tokenFile != "" {
		return readToken(f.tokenFile)
	}
	if token := os.Getenv(envToken); token != "" {
		return token, nil
	}
	if path := os.Getenv(envTokenFile); path != "" {
		return readToken(path)
	}
	return "", nil
}

func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("read the token: %s is empty", path)
	}
	return token, nil
}

// tls makes the TLS configuration; nil when nothing asks for one. known is the
// certificate of a server of this user's, "" when there is none.
func (f *connectFlags) tls(known string) (*tls.Config, error) {
	if f.caFile == "" && f.certFile == "" && f.keyFile == "" && known == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := f.caFile; ca != "" || known != "" {
		if ca == "" {
			ca = known
		}
		raw, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read --tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(bytes.TrimSpace(raw)) {
			return nil, fmt.Errorf("read --tls-ca: no PEM certificate in %s", ca)
		}
	}
	if f.certFile == "" && f.keyFile == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return nil, fmt.Errorf("load --tls-cert and --tls-key: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}
