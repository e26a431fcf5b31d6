package process_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A heldUp sends requests about the process p, which is cat, behind others that end when
// the test says so.
type heldUp struct {
	*client
	conn rpc.Connection
	ctx  context.Context
	last int64
	out  []byte
	end  func() // of test/copy, which changes files, and of test/hang
}

func holdUp(t *testing.T) *heldUp {
	h := &heldUp{client: connect(t)}
	h.start(pipeStdin(h.params("p", "cat")))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	gate, end := context.WithCancel(ctx)
	t.Cleanup(end)
	h.ctx, h.end = ctx, end
	for name, order := range map[string]rpc.Order{"test/copy": rpc.ChangesFiles, "test/hang": rpc.Concurrent} {
		rpc.Handle(h.table, rpc.Spec[protocol.Empty]{Name: name, Order: rpc.Always[protocol.Empty](order)},
			func(*process.Service, context.Context, *protocol.Empty) (protocol.Empty, error) {
				<-gate.Done()
				return protocol.Empty{}, nil
			})
	}
	h.conn = h.raw()
	return h
}

// say sends a request and returns its id.
func (h *heldUp) say(method, params string) int64 {
	h.t.Helper()
	h.last++
	if err := h.conn.Write(h.ctx, fmt.Appendf(nil, `{"id":%d,"method":"%s","params":{%s}}`, h.last, method, params)); err != nil {
		h.t.Fatal(err)
	}
	return h.last
}

// next reads a message, and keeps the output that is in it.
func (h *heldUp) next() wire.Envelope {
	h.t.Helper()
	msg, err := h.conn.Read(h.ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	env, err := wire.ParseEnvelope(msg, wire.Limits{Depth: protocol.MaxJSONDepth, Values: protocol.MaxJSONValues})
	if err != nil {
		h.t.Fatal(err)
	}
	if env.Method == protocol.NotifyProcessOutput {
		var p protocol.OutputParams
		if err := wire.Unmarshal(env.Params, &p); err != nil {
			h.t.Fatal(err)
		}
		h.out = append(h.out, p.Chunk...)
	}
	return env
}

// answered waits until exactly these are answered.
func (h *heldUp) answered(ids ...int64) {
	h.t.Helper()
	missing := make(map[wire.ID]bool)
	for _, id := range ids {
		missing[wire.IntID(id)] = true
	}
	for len(missing) > 0 {
		env := h.next()
		if env.Kind == wire.Response && !missing[env.ID] {
			h.t.Fatalf("an answer to %v, not to %v", env.ID, missing)
		}
		delete(missing, env.ID)
	}
}

// output waits until the process is closed, and returns what it has printed.
func (h *heldUp) output() string {
	h.t.Helper()
	for h.next().Method != protocol.NotifyProcessClosed {
	}
	return string(h.out)
}

// withoutFiles are requests about a running process that do not build upon files.
var withoutFiles = []struct{ name, method, params string }{
	{"terminate", "process/terminate", `"processId":"p"`},
	{"kill", "process/signal", `"processId":"p","signal":"SIGKILL"`},
	{"interrupt", "process/signal", `"processId":"p","signal":"interrupt"`},
	{"resize", "process/resize", `"processId":"p","rows":9,"cols":9`},
	{"read", "process/read", `"processId":"p"`},
}

// A change of files that takes long holds up input, which a program may take as an order
// to look at files, but nothing else about a running process.
func TestInputThatWaitsHoldsUpNothingElse(t *testing.T) {
	for _, r := range withoutFiles {
		t.Run(r.name, func(t *testing.T) {
			h := holdUp(t)
			copying := h.say("test/copy", "")
			write := h.say("process/write", `"processId":"p","chunk":"eA=="`)
			h.answered(h.say(r.method, r.params))
			h.end()
			h.answered(copying, write)
		})
	}
}

// Input keeps its order, although others overtake it.
func TestOvertakenInputKeepsItsOrder(t *testing.T) {
	h := holdUp(t)
	ids := []int64{h.say("test/copy", "")}
	var want strings.Builder
	for i := range 26 {
		want.WriteByte(byte('a' + i))
		ids = append(ids, h.say("process/write", fmt.Sprintf(`"processId":"p","chunk":"%s"`, base64.StdEncoding.EncodeToString([]byte{byte('a' + i)}))))
		h.answered(h.say("process/resize", `"processId":"p","rows":9,"cols":9`))
	}
	h.end()
	h.answered(ids...)
	h.say("process/closeStdin", `"processId":"p"`)
	if got := h.output(); got != want.String() {
		t.Errorf("got %q, want %q", got, want.String())
	}
}

// Requests that have all the places and do not end keep nobody from ending a process.
func TestEndNeedsNoPlaceOfOthers(t *testing.T) {
	for _, r := range append(withoutFiles[:3:3], struct{ name, method, params string }{"hangup", "process/signal", `"processId":"p","signal":"SIGHUP"`}) {
		t.Run(r.name, func(t *testing.T) {
			h := holdUp(t)
			var hung []int64
			for range rpc.DefaultConcurrency {
				hung = append(hung, h.say("test/hang", ""))
			}
			if r.name != "hangup" { // that is behind all input
				hung = append(hung, h.say("process/write", `"processId":"p","chunk":"eA=="`))
			}
			h.answered(h.say(r.method, r.params))
			h.end()
			h.answered(hung...)
		})
	}
}
