package client

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// closeWait bounds how long Close waits for the answers to its last calls.
const closeWait = time.Second

// Client is a session at a server. It has one goroutine that keeps it connected, and
// others for what is under way; Close ends them all.
type Client struct {
	transport Transport
	opts      Options
	log       *slog.Logger
	rand      *rand.Rand // of run
	life      context.Context
	end       context.CancelCauseFunc
	wg        sync.WaitGroup
	patience  time.Duration // for the Transport alone; 0 means ConnectTimeout for all
	lastID    atomic.Uint64
	prefix    string // of the ids that this client chooses

	mu      sync.Mutex
	started bool
	sealed  bool          // nothing is started any more
	changed chan struct{} // closed and replaced when one of the following changes
	current *link         // nil while there is no connection
	session session
	err     error // why there will be no other connection

	processes map[string]*Process
	watches   map[string]*Watch
	bodies    map[string]*body

	closing  chan struct{} // closed when Close begins
	closed   chan struct{} // closed when Close is done
	shutting atomic.Bool   // Close has begun. Not a sync.Once: others would wait on a mutex
}

// session is what the server said of the session.
type session struct {
	id   string
	info protocol.EnvironmentInfo
}

// Open makes a Client that connects at its first call. opts may be nil.
func Open(t Transport, opts *Options) *Client {
	c := &Client{
		transport: t, opts: opts.withDefaults(),
		rand:      rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		prefix:    newPrefix(),
		changed:   make(chan struct{}),
		processes: make(map[string]*Process), watches: make(map[string]*Watch), bodies: make(map[string]*body),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	if p, ok := t.(patient); ok && (opts == nil || opts.ConnectTimeout == 0) {
		c.patience = p.connectTime()
	}
	c.log = c.opts.Logger
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// Dial connects to the server at url: ws://HOST:PORT, wss://HOST:PORT,
// unix:///PATH/OF/SOCKET or a RelayURL. ctx bounds the connecting only. opts may be nil.
func Dial(ctx context.Context, url string, opts *Options) (*Client, error) {
	t, err := NewTransport(url, opts)
	if err != nil {
		return nil, err
	}
	return connect(ctx, Open(t, opts))
}

// DialCommand starts argv as a child that serves the wire on its stdin and stdout,
// such as "wsd serve --listen stdio", and ends it with the Client. A child that has
// died is not started again. What it writes to stderr goes to stderr; nil discards.
func DialCommand(ctx context.Context, argv []string, stderr io.Writer, opts *Options) (*Client, error) {
	return connect(ctx, Open(NewCommandTransport(argv, stderr), opts))
}

// New makes a Client of a connection, which it owns from then on. When the
// connection is lost, redial makes another to the same server; nil means that the
// Client ends.
func New(ctx context.Context, conn rpc.Connection, redial func(context.Context) (rpc.Connection, error), opts *Options) (*Client, error) {
	return connect(ctx, Open(&given{conn: conn, redial: redial}, opts))
}

func connect(ctx context.Context, c *Client) (*Client, error) {
	if err := c.Connect(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Connect returns once the Client is connected. It need not be called: every call
// connects first.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.acquire(ctx)
	return err
}

// Connected reports whether calls go through at the moment.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current != nil && c.current.alive()
}

// Kind is the Transport's.
func (c *Client) Kind() string { return c.transport.Kind() }

// Err returns why the Client has ended, nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// SessionID is the id of the session, "" before the first connection.
func (c *Client) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.id
}

// Close terminates the processes of the session, ends the connection and everything
// that waits for it, and returns when nothing of the Client runs any more. It may be
// called again, and from several goroutines.
func (c *Client) Close() error {
	if !c.shutting.CompareAndSwap(false, true) {
		<-c.closed
		return nil
	}
	close(c.closing)
	c.terminateAll()
	c.end(ErrClosed)
	c.mu.Lock()
	c.sealed = true
	started := c.started
	c.mu.Unlock()
	if !started {
		c.finish(ErrClosed)
	}
	c.wg.Wait()
	close(c.closed)
	return nil
}

// terminateAll has the server kill what runs, as nobody could reach it any more. It
// does not wait long.
func (c *Client) terminateAll() {
	c.mu.Lock()
	l := c.current
	running := slices.Collect(maps.Values(c.processes))
	c.mu.Unlock()
	if l == nil || len(running) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, closeWait)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range running {
		wg.Go(func() {
			if p.settle(ctx) == nil {
				_ = l.peer.Call(ctx, protocol.MethodProcessTerminate, &protocol.TerminateParams{ProcessID: p.id}, nil)
			}
		})
	}
	wg.Wait()
}

// spawn runs fn on a goroutine that Close waits for; false when the Client is closed.
func (c *Client) spawn(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spawnLocked(fn)
}

func (c *Client) spawnLocked(fn func()) bool {
	if c.sealed {
		return false
	}
	c.wg.Go(fn)
	return true
}

// acquire returns the connection, once there is one, unless ctx has ended.
func (c *Client) acquire(ctx context.Context) (*link, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.mu.Lock()
		if c.err != nil {
			defer c.mu.Unlock()
			return nil, c.err
		}
		if c.current != nil && c.current.alive() {
			defer c.mu.Unlock()
			return c.current, nil
		}
		if !c.started && !c.isClosing() {
			c.started = c.spawnLocked(c.run)
		}
		if !c.started {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// broadcast tells those that wait in acquire. c.mu is held.
func (c *Client) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}
