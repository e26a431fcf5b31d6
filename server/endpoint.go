package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc/lineconn"
)

// EndpointConfig says where and how to listen. The zero value is DefaultListenURL.
type EndpointConfig struct {
	// URL is ws://IP:PORT, wss://IP:PORT, unix:///PATH or stdio. Port 0 picks one.
	URL string
	// TLS makes a wss endpoint of a ws one.
	TLS TLSFiles
	// HTTP is for all but stdio.
	HTTP HTTPConfig
	// AnyLocalUser lets processes of every user of this machine in at a loopback port
	// that asks for no authentication; else only those of this user and of root come in,
	// where the system tells whose they are.
	AnyLocalUser bool
	// AllowedHosts are names that requests at such a port may have in their Host header,
	// besides addresses and localhost.
	AllowedHosts []string
	// Announce, if set, is written the bound URL and a line end, once connections
	// are accepted. Nothing is written for stdio.
	Announce io.Writer
	// Stdin and Stdout are the streams of stdio; nil means those of the program.
	Stdin  io.ReadCloser
	Stdout io.Writer
}

// An Endpoint is a place where a Server can be reached.
type Endpoint struct {
	url   string
	serve func(ctx context.Context) error
	close func() error
}

// URL is the URL of the endpoint, with the port that was picked.
func (e *Endpoint) URL() string { return e.url }

// Close stops listening. Connections go on; Run and Shutdown end those.
func (e *Endpoint) Close() error { return e.close() }

// Listen opens an endpoint, which Run serves. Without authorization or client
// certificates it refuses addresses that other machines can reach: whoever connects
// runs commands as this user.
func (s *Server) Listen(cfg EndpointConfig) (*Endpoint, error) {
	u, err := parseListenURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	cfg.TLS.Logger = s.cfg.Logger
	secure, err := cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	switch u.scheme {
	case schemeStdio, schemeUnix:
		if secure != nil {
			return nil, fmt.Errorf("TLS needs a ws:// or wss:// --listen URL, not %s", u.scheme)
		}
	case schemeWSS:
		if secure == nil {
			return nil, errors.New("a wss:// --listen URL needs --tls-cert and --tls-key")
		}
	}
	if u.scheme == schemeStdio {
		return s.stdio(cfg)
	}
	if u.scheme != schemeUnix && !u.addr.Addr().Unmap().IsLoopback() && cfg.HTTP.Authorize == nil && cfg.TLS.ClientCA == "" {
		return nil, fmt.Errorf("refusing to listen on %s without authentication, since whoever reaches it could run commands: "+
			"add --ws-auth capability-token or signed-bearer-token, or --tls-client-ca, or listen on 127.0.0.1", u.addr)
	}
	return s.listen(u, secure, cfg)
}

func (s *Server) listen(u listenURL, secure *tls.Config, cfg EndpointConfig) (*Endpoint, error) {
	var ln net.Listener
	var err error
	url := "unix://" + u.path
	if u.scheme == schemeUnix {
		ln, err = listenUnix(u.path)
	} else {
		ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", u.addr.String())
	}
	if err != nil {
		return nil, err
	}
	switch {
	case u.scheme == schemeUnix:
	case secure != nil:
		url = "wss://" + ln.Addr().String()
		ln = tls.NewListener(ln, secure)
	default:
		url = "ws://" + ln.Addr().String()
	}
	if cfg.Announce != nil {
		if _, err := fmt.Fprintln(cfg.Announce, url); err != nil {
			return nil, errors.Join(fmt.Errorf("announce the URL: %w", err), ln.Close())
		}
	}
	s.cfg.Logger.Info("listening", "url", url)
	cfg.HTTP.door = newDoor(u, cfg)
	if !knowsPeers && cfg.HTTP.door != nil && !cfg.AnyLocalUser {
		s.cfg.Logger.Warn("every user of this machine can use this server, since the system does not tell whose connections are: " +
			"give it a token or a Unix socket, or say --any-local-user")
	}
	web := s.httpServer(cfg.HTTP)
	return &Endpoint{
		url: url,
		serve: func(context.Context) error {
			if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("accept connections: %w", err)
			}
			return nil
		},
		close: func() error {
			return errors.Join(ignoreClosed(web.Close()), ignoreClosed(ln.Close())) // in this order: see http.ErrServerClosed
		},
	}, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) httpServer(cfg HTTPConfig) *http.Server {
	newcomers := NewNewcomers(protocol.MaxHTTPConnections, protocol.MaxHTTPConnectionsOfOne, s.cfg.Logger)
	return &http.Server{
		Handler:                      s.Handler(cfg),
		ReadHeaderTimeout:            protocol.HTTPHeaderTimeout,
		IdleTimeout:                  protocol.HTTPIdleTimeout,
		MaxHeaderBytes:               protocol.MaxHTTPHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew {
				tuneTCP(c)
			}
			newcomers.Change(c, state)
		},
		ConnContext: remember,
		ErrorLog:    slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
}

// stdio makes the endpoint of a child process that speaks on its own streams.
func (s *Server) stdio(cfg EndpointConfig) (*Endpoint, error) {
	if cfg.HTTP.Authorize != nil {
		return nil, errors.New("--ws-auth needs a websocket --listen URL, not stdio")
	}
	in, out := cfg.Stdin, cfg.Stdout
	if in == nil {
		in = os.Stdin
	}
	if out == nil {
		out = os.Stdout
	}
	conn := lineconn.New(in, out, in.Close)
	return &Endpoint{
		url: "stdio",
		serve: func(ctx context.Context) error {
			// What ends the connection has been logged and is no failure of the program.
			_ = s.ServeConnection(ctx, conn, ConnectionOptions{
				Remote: "stdio", ParsePrefix: "failed to parse JSON-RPC message from exec-server stdio: ",
				Parent: true, Final: true, AnswerAll: true,
			})
			return nil
		},
		close: conn.Close,
	}, nil
}

// Run serves endpoints until ctx ends or one of them does, as stdio does with its
// input, then shuts down: connections end, children are killed, listeners close. It
// returns nil unless an endpoint failed or something would not end.
func (s *Server) Run(ctx context.Context, endpoints ...*Endpoint) error {
	ended := make(chan error, len(endpoints))
	for _, e := range endpoints {
		go func() { ended <- e.serve(ctx) }() // ends when e is closed, which is waited for below
	}
	var errs []error
	left := len(endpoints)
	select {
	case <-ctx.Done():
	case err := <-ended:
		errs = append(errs, err)
		left--
	}
	s.cfg.Logger.Info("shutting down")
	// Not ctx anew: endpoints that have just begun may still read that.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), protocol.ShutdownTimeout)
	defer cancel()
	errs = append(errs, s.Shutdown(closing))
	for _, e := range endpoints {
		errs = append(errs, e.Close())
	}
	for ; left > 0; left-- {
		select {
		case err := <-ended:
			errs = append(errs, err)
		case <-closing.Done():
			return errors.Join(append(errs, errors.New("an endpoint would not end"))...)
		}
	}
	return errors.Join(errs...)
}
