package executor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A relay, an executor that answers in capitals, and a harness that asks it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	url, token, end := startRelay(ctx)
	defer end()
	defer cancel()

	// The executor.
	attached := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- executor.Run(ctx, executor.Config{
			Registry: newClient(url, token("executor")), EnvironmentID: "lab", Identity: newIdentity(),
			OnConnect: func() { attached <- struct{}{} },
			Serve: func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
				msg, err := conn.Read(ctx)
				if err == nil {
					err = conn.Write(ctx, fmt.Appendf(nil, "%s, over a %s stream", msg, info.Profile))
				}
				if err == nil {
					_, _ = conn.Read(ctx) // until the harness has gone
				}
			},
		})
	}()
	<-attached

	// The harness.
	h, err := harness.New(harness.Config{
		Registry: newClient(url, token("harness")), EnvironmentID: "lab", Identity: newIdentity(),
		Verify: func(*seal.PublicKey) error { return nil }, // compare the fingerprint here
	})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := h.Connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.Write(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	msg, err := conn.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(msg))
	_ = conn.Close()

	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// hello, over a reliable-1 stream
	// ended: <nil>
}
