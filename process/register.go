package process

import (
	"context"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// family is what errors about the handshake call these methods.
const family = "exec"

// Register adds the methods that a *Service serves. Requests about one process keep
// their order, so that a client may send a start and what follows it in one go. Those
// that may wait for long give up their turn first: a terminate is never behind them.
func Register(t *rpc.Table) {
	handle(t, protocol.MethodProcessStart, (*Service).start, func(p *protocol.StartParams) string { return p.ProcessID })
	handle(t, protocol.MethodProcessRead, (*Service).read, func(p *protocol.ReadParams) string { return p.ProcessID })
	rpc.Handle(t, rpc.Spec[protocol.WriteParams]{
		Name: protocol.MethodProcessWrite, Family: family,
		Order: func(p *protocol.WriteParams) rpc.Order { return rpc.Quick(lane(p.ProcessID)) },
	}, (*Service).write)
	handle(t, protocol.MethodProcessCloseStdin, (*Service).closeStdin, func(p *protocol.ProcessParams) string { return p.ProcessID })
	handle(t, protocol.MethodProcessSignal, (*Service).signal, func(p *protocol.SignalParams) string { return p.ProcessID })
	handle(t, protocol.MethodProcessTerminate, (*Service).terminate, func(p *protocol.TerminateParams) string { return p.ProcessID })
	handle(t, protocol.MethodProcessResize, (*Service).resize, func(p *protocol.ResizeParams) string { return p.ProcessID })
	rpc.Handle(t, rpc.Spec[protocol.ListParams]{Name: protocol.MethodProcessList, Family: family}, (*Service).list)
}

// handle adds a method whose requests take turns by the process that id names.
func handle[P, R any](t *rpc.Table, name string, fn func(*Service, context.Context, *P) (R, error), id func(*P) string) {
	rpc.Handle(t, rpc.Spec[P]{
		Name:   name,
		Family: family,
		Order:  func(p *P) rpc.Order { return lane(id(p)) },
	}, fn)
}

// lane is the order of requests about one process.
func lane(id string) rpc.Order { return rpc.Serial("process:" + id) }
