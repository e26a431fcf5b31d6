package process_test

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A change of files that takes long holds up input, which a program may take as an order
// to look at files, but not the end of a program.
func TestInputThatWaitsHoldsUpNoEnd(t *testing.T) {
	c := connect(t)
	c.start(pipeStdin(c.params("p", "cat")))
	copied := make(chan struct{})
	rpc.Handle(c.table, rpc.Spec[protocol.Empty]{Name: "test/copy", Order: rpc.Always[protocol.Empty](rpc.ChangesFiles)},
		func(*process.Service, context.Context, *protocol.Empty) (protocol.Empty, error) {
			<-copied
			return protocol.Empty{}, nil
		})
	conn := c.raw()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, msg := range []string{
		`{"id":1,"method":"test/copy","params":{}}`,
		`{"id":2,"method":"process/write","params":{"processId":"p","chunk":"eA=="}}`,
		`{"id":3,"method":"process/read","params":{"processId":"p"}}`,
		`{"id":4,"method":"process/terminate","params":{"processId":"p"}}`,
	} {
		if err := conn.Write(ctx, []byte(msg)); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(ids ...int64) {
		t.Helper()
		missing := make(map[wire.ID]bool)
		for _, id := range ids {
			missing[wire.IntID(id)] = true
		}
		for len(missing) > 0 {
			msg, err := conn.Read(ctx)
			if err != nil {
				t.Fatalf("no answer to %v: %v", missing, err)
			}
			env, err := wire.ParseEnvelope(msg, wire.Limits{Depth: protocol.MaxJSONDepth, Values: protocol.MaxJSONValues})
			if err != nil {
				t.Fatal(err)
			}
			if env.Kind == wire.Response && !missing[env.ID] {
				t.Fatalf("an answer to %v, not to %v", env.ID, missing)
			}
			delete(missing, env.ID)
		}
	}
	answered(4)
	close(copied)
	answered(1, 2, 3)
}
