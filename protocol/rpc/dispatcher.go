package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// DispatcherConfig is what a Dispatcher may be told.
type DispatcherConfig struct {
	// Concurrency is how many requests run at a time. With 1 they run one by one in
	// the order of arrival, whatever their methods' orders say, as the original's
	// --concurrent-requests 1 has it; Inline ones and those that called Async are
	// beside the count. Less than 1 means DefaultConcurrency.
	Concurrency int
	// Gate, if set, refuses a request, after its parameters have been decoded.
	Gate func(m *Method) error
	// Observe, if set, is called when a request begins to run or is refused, with the
	// method's name or UnknownMethod. What it returns is called with the outcome.
	Observe func(ctx context.Context, method string, trace wire.TraceContext) (context.Context, func(error))
	// Logger is told of panics. nil discards.
	Logger *slog.Logger
}

// UnknownMethod stands for methods that are not served, whose names are the
// client's to choose.
const UnknownMethod = "unknown"

// DefaultConcurrency is how many requests of a connection run at a time. More than
// one, so that a slow request holds up only what depends on it.
const DefaultConcurrency = 16

// A Dispatcher runs requests by a Table.
type Dispatcher struct {
	table *Table
	scope *Scope
	cfg   DispatcherConfig
	sched *scheduler
	watch watchdog
}

// NewDispatcher makes a Dispatcher for one connection.
func NewDispatcher(scope *Scope, cfg DispatcherConfig) *Dispatcher {
	if cfg.Concurrency < 1 {
		cfg.Concurrency = DefaultConcurrency
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Dispatcher{table: scope.table, scope: scope, cfg: cfg, sched: newScheduler(cfg.Concurrency)}
}

// HandleRequest decodes req and runs it when its order lets it. It never blocks, or
// hands off first. The
// requests it has begun end no later than ctx lets them.
func (d *Dispatcher) HandleRequest(ctx context.Context, req *Request) {
	m := d.table.methods[req.Method]
	if m == nil {
		d.refuse(ctx, req, UnknownMethod, notFound(req.Method))
		return
	}
	params, err := m.decode(req.Params)
	if err == nil && d.cfg.Gate != nil {
		err = d.cfg.Gate(m)
	}
	if err != nil {
		d.refuse(ctx, req, m.Name, err)
		return
	}
	req.Params = nil
	service := d.scope.services[m.slot]
	if service == nil { // only now: services may be bound by what the gate waits for
		d.refuse(ctx, req, UnknownMethod, notFound(req.Method))
		return
	}
	if m.arrive != nil {
		if err := m.arrive(service, params); err != nil {
			d.refuse(ctx, req, m.Name, err)
			return
		}
	}

	order := m.order(params)
	if order.inline {
		t := &task{order: order}
		result, err := d.serve(taskContext{ctx, t, req}, m, service, params, req)
		req.ReplyInline(result, err)
		return
	}
	if d.cfg.Concurrency == 1 {
		quick := order.quick
		if order = Serial(""); quick {
			order = Quick(order)
		}
	}
	t := &task{order: order, run: func(t *task) {
		if req.peer.Err() != nil {
			req.drop()
			return
		}
		result, err := d.serve(taskContext{ctx, t, req}, m, service, params, req)
		if m.served != nil && !req.peer.account.Crowded() {
			m.served(params)
		}
		req.Reply(result, err)
	}}
	if d.sched.submit(t) {
		t.here = true // set before anybody else knows of t
		d.watch.begin(req)
		d.sched.runHere(t)
		d.watch.end(req)
	}
}

// refuse answers a request that does not get to run.
func (d *Dispatcher) refuse(ctx context.Context, req *Request, method string, err error) {
	if d.cfg.Observe != nil {
		_, done := d.cfg.Observe(ctx, method, req.Trace)
		done(err)
	}
	req.ReplyInline(nil, err)
}

// Wait returns when every request handled so far has been answered.
func (d *Dispatcher) Wait() { d.sched.wait() }

func (d *Dispatcher) serve(ctx context.Context, m *Method, service, params any, req *Request) (result any, err error) {
	if d.cfg.Observe != nil {
		var done func(error)
		ctx, done = d.cfg.Observe(ctx, m.Name, req.Trace)
		defer func() { done(err) }()
	}
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("request panicked", "method", m.Name, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, protocol.Errorf(protocol.CodeInternal, "internal error while serving %s; the server's log has the details", m.Name)
		}
	}()
	return m.serve(ctx, service, params)
}

func notFound(method string) error {
	return protocol.Errorf(protocol.CodeMethodNotFound, "exec-server stub does not implement `%s` yet", method)
}

// taskContext is the context of one request.
type taskContext struct {
	context.Context
	task *task
	req  *Request
}

type taskKey struct{}

func (c taskContext) Value(key any) any {
	if key == (taskKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Async lets the requests behind the one that ctx belongs to run, although it has
// not ended, and gives its place to another. A method calls it before a wait that
// may be long.
func Async(ctx context.Context) {
	if c, ok := ctx.Value(taskKey{}).(taskContext); ok {
		c.task.release()
		if c.task.here {
			c.req.HandOff()
		}
	}
}

// Yield gives the place of the request that ctx belongs to to another, as Async does.
// The requests that its order has wait for it still wait. A method calls it before a wait
// that may be long, but after which it does what they build upon.
func Yield(ctx context.Context) {
	if c, ok := ctx.Value(taskKey{}).(taskContext); ok {
		c.task.yield()
		if c.task.here {
			c.req.HandOff()
		}
	}
}

// AfterReply has fn run once the answer to the request that ctx belongs to has been
// queued: what fn notifies arrives after the answer. fn must not block. Outside a
// request it runs at once.
func AfterReply(ctx context.Context, fn func()) {
	if c, ok := ctx.Value(taskKey{}).(taskContext); ok {
		c.req.afterReply(fn)
		return
	}
	fn()
}
