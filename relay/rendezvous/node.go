package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// Config says what a Node is made of. State and PublicURL must be set.
type Config struct {
	State State
	// PublicURL is where executors and harnesses reach the relay, whichever node
	// answers: http or https, a path before it is kept.
	PublicURL string
	// NodeURL is where this node itself is reached: harnesses are sent to the node that
	// has the executor. Default PublicURL, which is right for a single node.
	NodeURL string
	// NodeID names the node among others; by default by chance, anew at every start.
	NodeID string
	// TrustProxy takes the remote address from the last X-Forwarded-For: there is a
	// proxy in front, and no other way in.
	TrustProxy bool
	// MaxSockets bounds the sockets; default MaxSockets, which is the most, too.
	MaxSockets int
	// Audit gets a line of JSON for each that comes and goes. nil discards.
	Audit io.Writer
	// Logger may be nil.
	Logger *slog.Logger
}

// A Node is a relay, or one of several that share a State.
type Node struct {
	cfg    Config
	id     string
	state  State
	public *url.URL
	node   *url.URL
	log    *slog.Logger
	audit  *auditor
	tokens Tokens
	meters meters
	brakes brakes
	used   usedURLs
	begun  time.Time
	warn   rate.Sometimes
	// identity challenges executors. It is made anew at every start, and proves nothing.
	identity *seal.Identity

	unused     tally // authorizations
	registered tally

	mu        sync.Mutex
	known     []secret
	executors map[string]*executor   // by environment, those whose sockets are here
	attaching map[*executor]struct{} // those that the State has and whose sockets are made
	sockets   map[closer]struct{}    // all there are
	seats     shares                 // of sockets
	draining  bool
	drained   bool
	wait      sync.WaitGroup // sockets
	total     counters
	queued    atomic.Int64 // bytes that wait for harnesses

	beating chan struct{} // holds a token while beat writes

	seen map[string]uint64 // revisions that reconcile has looked at; Run's
}

// A closer is a socket, for whoever only closes them.
type closer interface {
	token() string
	shut(code int, reason string)
}

// New returns a node. Handler answers its requests, and Run must be running.
func New(cfg Config) (*Node, error) {
	if cfg.State == nil {
		return nil, errors.New("rendezvous: no state")
	}
	n := &Node{
		cfg: cfg, id: cfg.NodeID, state: cfg.State, log: cfg.Logger, tokens: Tokens{cfg.State}, begun: time.Now(),
		executors: map[string]*executor{}, attaching: map[*executor]struct{}{}, sockets: map[closer]struct{}{},
		beating: make(chan struct{}, 1), warn: rate.Sometimes{Interval: Heartbeat},
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.cfg.MaxSockets <= 0 || n.cfg.MaxSockets > MaxSockets {
		n.cfg.MaxSockets = MaxSockets
	}
	n.audit = newAuditor(cfg.Audit)
	if n.id == "" {
		n.id = randomID()
	}
	if !validKey(n.id) {
		return nil, fmt.Errorf("rendezvous: node id %q: use letters, digits, _ and -", n.id)
	}
	if n.cfg.NodeURL == "" {
		n.cfg.NodeURL = cfg.PublicURL
	}
	var err error
	if n.identity, err = seal.NewIdentity(); err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	if n.public, err = registry.ParseBaseURL(cfg.PublicURL); err != nil {
		return nil, fmt.Errorf("rendezvous: public URL: %w", err)
	}
	if n.node, err = registry.ParseBaseURL(n.cfg.NodeURL); err != nil {
		return nil, fmt.Errorf("rendezvous: node URL: %w", err)
	}
	return n, nil
}

// ID names the node.
func (n *Node) ID() string { return n.id }

// Run keeps the node known to the others, sees that revoked tokens count for nothing, and
// deletes what has expired, until ctx ends. It returns an error if the node cannot be
// made known at first.
func (n *Node) Run(ctx context.Context) error {
	if err := n.beat(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	beat, sweep, sum := time.NewTicker(Heartbeat), time.NewTicker(Sweep), time.NewTicker(AuditInterval)
	defer beat.Stop()
	defer sweep.Stop()
	defer sum.Stop()
	defer n.sumUp()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			err = errors.Join(n.beat(ctx), n.dropRevoked(ctx), n.reconcile(ctx))
		case <-sweep.C:
			err = n.sweep(ctx)
		case <-sum.C:
			n.sumUp()
		}
		if err != nil && ctx.Err() == nil {
			n.log.Warn("the state of the relay is not reached", "err", err)
		}
	}
}

// sumUp writes what was refused that had no credential.
func (n *Node) sumUp() {
	if sum := n.audit.sum(); sum != nil {
		n.audit.write("refusals", sum...)
	}
}

// unreached logs that a request could not be answered, but not for each of a flood.
func (n *Node) unreached(attrs ...any) {
	n.warn.Do(func() { n.log.Warn("the state of the relay is not reached", attrs...) })
}

// beat says that the node lives, as long as it does.
func (n *Node) beat(ctx context.Context) error {
	n.beating <- struct{}{}
	defer func() { <-n.beating }()
	n.mu.Lock()
	drained := n.drained
	n.mu.Unlock()
	if drained {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, StateTimeout)
	defer cancel()
	now := time.Now()
	_, err := write(ctx, n.state, BucketNodes, n.id, nodeRecord{
		ID: n.id, URL: n.cfg.NodeURL, Started: n.begun.UTC(), Expires: now.Add(NodeLease).UTC(),
		Draining: n.isDraining(), Stats: n.stats(),
	}, AnyRevision)
	return err
}

// dropRevoked closes the sockets of tokens that are revoked or have expired.
func (n *Node) dropRevoked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StateTimeout)
	defer cancel()
	n.mu.Lock()
	sockets := make([]closer, 0, len(n.sockets)) // before the list: it has all of their tokens
	for s := range n.sockets {
		sockets = append(sockets, s)
	}
	n.mu.Unlock()
	all, err := n.tokens.List(ctx)
	if err != nil {
		return err
	}
	good := make(map[string]bool, len(all))
	now := time.Now()
	for i := range all {
		good[all[i].ID] = !all[i].expired(now)
		n.meters.set(&all[i])
	}
	for _, s := range sockets {
		if good[s.token()] {
			continue
		}
		n.audit.write("revoked", slog.String("token", s.token()))
		s.shut(closePolicy, "token revoked or expired")
	}
	return nil
}

// isDraining says that nobody new may come in.
func (n *Node) isDraining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draining
}

// Drain lets nobody in any more, closes all sockets, saying that the relay goes away, and
// returns when they have ended or ctx has. Executors reconnect by themselves, to another
// node or to this one when it is back.
func (n *Node) Drain(ctx context.Context) error {
	n.mu.Lock()
	n.draining = true
	all := make([]closer, 0, len(n.sockets))
	for s := range n.sockets {
		all = append(all, s)
	}
	n.mu.Unlock()
	for _, s := range all {
		s.shut(closeGoingAway, "the relay is shutting down")
	}
	done := make(chan struct{})
	go func() { // ends with the sockets, which are closed
		defer close(done)
		n.wait.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	n.beating <- struct{}{} // a beat under way would have the others believe in the node again
	n.mu.Lock()
	n.drained = true
	n.mu.Unlock()
	<-n.beating
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StateTimeout)
	defer cancel()
	if gone := n.state.Delete(ctx, BucketNodes, n.id, AnyRevision); gone != nil && !errors.Is(gone, ErrNotFound) {
		err = errors.Join(err, gone)
	}
	return err
}
