package main

import (
	"context"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
)

// newForwardCmd is `serve --forward` as the original spells it.
func newForwardCmd(a *app) *cobra.Command {
	var remote remoteOptions
	var log logOptions
	var target string
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Put a relay in front of another exec-server",
		Long: `Serves over a relay what another exec-server serves: each client gets a
connection of its own to the server at --connect. The same as 'wsd serve --remote
URL --forward URL'.

Exit status: as 'wsd serve'.`,
		Example: "  wsd exec-server forward --remote https://relay.example --environment-id lab --connect ws://127.0.0.1:45678",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case target == "":
				return usagef("write --connect ws://127.0.0.1:45678", "--connect is missing: which server?")
			case !remote.enabled():
				return usagef("write --remote https://HOST", "--remote is missing: over which relay?")
			}
			if err := remote.check(cmd); err != nil {
				return err
			}
			if err := log.check(helpHint(cmd)); err != nil {
				return err
			}
			if err := remote.learn(a); err != nil {
				return err
			}
			a.outliveReaders()
			return a.forward(cmd.Context(), &remote, target, log.logger(a.stderr))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&target, "connect", "", "the server is at `URL`: ws://HOST:PORT, wss://HOST:PORT or unix:///PATH")
	remote.addFlags(f)
	log.addFlags(f, "warn")
	return cmd
}

func addForwardFlag(f *pflag.FlagSet, target *string) {
	f.StringVar(target, "forward", "", "serve over the relay what the exec-server at `URL` serves")
}

// forward serves over a relay what the server at target serves, until a signal comes.
func (a *app) forward(ctx context.Context, o *remoteOptions, target string, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends wsd the hard way
	forgetSecrets(false, log)
	if client.IsRelayURL(target) {
		return usagef("write ws://127.0.0.1:45678", "a relay is not put in front of a relay")
	}
	transport, err := client.NewTransport(target, nil)
	if err != nil {
		return usagef("write ws://127.0.0.1:45678", "%w", err)
	}
	r, err := o.open(a, log, func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
		to, err := transport.Connect(ctx)
		if err != nil {
			log.Warn("the server behind the relay is not reached", "stream", info, "err", err)
			if fault, ok := conn.(rpc.FaultCloser); ok {
				_ = fault.CloseFault(rpc.CloseGoingAway, "the server behind the relay is not reached")
			}
			return
		}
		behind := watch(to)
		defer behind.end()
		pipe(ctx, conn, behind)
	})
	if err != nil {
		return err
	}
	files := newPrivatePaths()
	files.add(r.files...)
	defer files.register(log)()
	return r.run(ctx)
}
