package sandbox

import (
	"context"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

var _ process.Launcher = (*Enforcer)(nil)

// Confine implements process.Launcher. The error is a *protocol.Error.
func (e *Enforcer) Confine(ctx context.Context, s *protocol.Sandbox, managed *protocol.ManagedNetwork, enforceManaged bool, cmd process.Launch) (process.Confined, error) {
	if s == nil {
		confined, err := e.confine(ctx, &Policy{Unconfined: true, Network: true}, cmd)
		confined.Type = protocol.SandboxNone
		return confined, processError(err)
	}
	p, err := e.resolve(s, Context{Cwd: cmd.Dir, TempDir: lookup(cmd.Env, "TMPDIR")})
	if err == nil && enforceManaged {
		err = manage(p, managed)
	}
	if err != nil {
		return process.Confined{}, processError(err)
	}
	if p.unrestricted() && len(cmd.Resources) == 0 {
		return process.Confined{Launch: cmd, Type: sandboxType}, nil
	}
	confined, err := e.confine(ctx, p, cmd)
	return confined, processError(err)
}

// manage holds the network to m. Without a port there is nothing to reach, and that
// can be had; a selection of ports of the host's loopback cannot.
func manage(p *Policy, m *protocol.ManagedNetwork) error {
	if m != nil && (len(m.LoopbackPorts) > 0 || m.AllowLocalBinding) {
		return unavailablef("a network limited to loopback ports cannot be enforced")
	}
	p.Network = false
	return nil
}
