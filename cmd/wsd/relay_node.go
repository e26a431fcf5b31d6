package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/server"
)

// runNode serves listener until ctx ends, then lets everybody go.
//
// Nobody new is let in first, requests under way are answered, and then the sockets are
// closed: whoever loses one asks again at once. That nobody is there is a reason to try
// again, to codex too; that a request is cut is none. (The Shutdown of an http.Server cuts
// those whose head has not come yet.)
func runNode(ctx context.Context, node *rendezvous.Node, listener net.Listener, newcomers *server.Newcomers, log *slog.Logger) error {
	var requests sync.WaitGroup // connections that are no sockets yet
	srv := &http.Server{
		Handler: node.Handler(), ReadHeaderTimeout: relayHeaderTimeout, ReadTimeout: relayHeaderTimeout, IdleTimeout: relayIdleTimeout,
		MaxHeaderBytes: relayHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, state http.ConnState) {
			newcomers.Change(c, state)
			switch state {
			case http.StateNew:
				requests.Add(1)
			case http.StateHijacked, http.StateClosed:
				requests.Done()
			case http.StateActive, http.StateIdle:
			}
		},
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	accepting := make(chan struct{})
	var both errgroup.Group
	both.Go(func() error {
		defer close(accepting)
		if err := srv.Serve(listener); ctx.Err() == nil && running.Err() == nil {
			end()
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	both.Go(func() error {
		defer end()
		return node.Run(running)
	})
	select {
	case <-ctx.Done():
		log.Info("the relay is shutting down")
	case <-running.Done():
	}
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), relayDrainTimeout)
	defer stop()
	srv.SetKeepAlivesEnabled(false)
	_ = listener.Close()
	<-accepting
	answer(drain, &requests)
	if err := node.Drain(drain); err != nil {
		log.Warn("not everything ended in time", "err", err)
	}
	end()
	_ = srv.Close() // what is left are requests that take too long
	return both.Wait()
}

// answer waits for requests, but not for long.
func answer(ctx context.Context, requests *sync.WaitGroup) {
	ctx, stop := context.WithTimeout(ctx, relayAnswerTimeout)
	defer stop()
	done := make(chan struct{})
	go func() { // ends with the requests, which are closed in the end
		defer close(done)
		requests.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
