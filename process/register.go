package process

import (
	"context"
	"syscall"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// family is what errors about the handshake call these methods.
const family = "exec"

// Register adds the methods that a *Service serves. Requests about one process keep
// their order, so that a client may send a start and what follows it in one go. Those
// that may wait for long give up their turn first.
//
// A start waits for changes of files before it, such as that of its program, and holds up
// those behind it until it is done. Input, the end of input and signals that a program may
// take as an order wait for changes of files, too: the program may look at them next.
// Other signals, a terminate and a resize wait for the start, but not for input that waits
// for files, nor for a place. A read waits for the start only.
func Register(t *rpc.Table) {
	handle(t, protocol.MethodProcessStart, (*Service).start, func(p *protocol.StartParams) rpc.Order { return starts.And(rpc.Serial(laneOf(p.ProcessID))) })
	handle(t, protocol.MethodProcessRead, (*Service).read, func(p *protocol.ReadParams) rpc.Order { return about(p.ProcessID) })
	handle(t, protocol.MethodProcessWrite, (*Service).write, func(p *protocol.WriteParams) rpc.Order { return rpc.Quick(orders(p.ProcessID)) })
	handle(t, protocol.MethodProcessCloseStdin, (*Service).closeStdin, func(p *protocol.ProcessParams) rpc.Order { return orders(p.ProcessID) })
	handle(t, protocol.MethodProcessSignal, (*Service).signal, signalOrder)
	handle(t, protocol.MethodProcessTerminate, (*Service).terminate, func(p *protocol.TerminateParams) rpc.Order { return urgently(p.ProcessID) })
	handle(t, protocol.MethodProcessResize, (*Service).resize, func(p *protocol.ResizeParams) rpc.Order { return urgently(p.ProcessID) })
	handle(t, protocol.MethodProcessList, (*Service).list, rpc.Always[protocol.ListParams](rpc.BehindAll(laneStarts)))
}

func handle[P, R any](t *rpc.Table, name string, fn func(*Service, context.Context, *P) (R, error), order func(*P) rpc.Order) {
	rpc.Handle(t, rpc.Spec[P]{Name: name, Family: family, Order: order}, fn)
}

// laneStarts is held by each start.
const laneStarts = "process/start"

// starts is the order of a start, but for its process.
var starts = rpc.Shared(laneStarts).And(rpc.ReadsFiles, rpc.SeenByWatches)

// laneOf is the lane of a process. A start has it alone.
func laneOf(id string) string { return "process:" + id }

// turnOf is the lane of what comes to a process, and urgentOf that of the part of it which
// does not wait for input that is held up.
func turnOf(id string) string   { return "turn:" + id }
func urgentOf(id string) string { return "urgent:" + id }

// about is the part of their order by which they wait for the start.
func about(id string) rpc.Order { return rpc.Shared(laneOf(id)) }

// orders is the order of what a process may take as an order to look at files.
func orders(id string) rpc.Order {
	return about(id).And(rpc.Serial(turnOf(id)), rpc.LooksAtFiles, rpc.SeenByWatches)
}

// urgently is the order of what overtakes input that waits for files. Among themselves such
// requests keep their order.
func urgently(id string) rpc.Order {
	return about(id).And(rpc.Overtaking(turnOf(id)), rpc.Serial(urgentOf(id)))
}

// signalOrder lets those signals wait that programs take as an order to look at files, and
// none that is to end a process.
func signalOrder(p *protocol.SignalParams) rpc.Order {
	switch sig, _ := parseSignal(p.Signal); sig { // 0 for one that is refused
	case syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT:
		return rpc.Urgent(orders(p.ProcessID))
	default:
		return urgently(p.ProcessID)
	}
}
