package shell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/rpctest"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// talk begins a conversation with runs over the wire.
func talk(t testing.TB, runs shell.ListedRuns) *rpctest.Conversation {
	t.Helper()
	table := rpc.NewTable()
	stream.Register(table)
	shell.Register(table)
	return rpctest.Serve(t, table, func(n rpc.Notifier) []rpc.Service {
		streams := stream.New(n, stream.Config{})
		return []rpc.Service{streams, shell.NewService(runs, streams)}
	})
}

// toldRuns answer what they are told, and say what they were asked.
type toldRuns struct {
	asked  []string
	listed int
	err    error
	events *toldEvents
}

func (r *toldRuns) ask(of ...any) error {
	r.asked = append(r.asked, fmt.Sprint(of...))
	return r.err
}

func (r *toldRuns) Exec(_ context.Context, q shell.Request) (string, shell.Events, error) {
	timeout := "default"
	if q.Timeout != nil {
		timeout = q.Timeout.String()
	}
	if q.ID == "" {
		q.ID = "new"
	}
	return q.ID, r.events, r.ask("exec ", q.Command, " in ", q.Cwd, " id ", q.ID, " env ", q.Env, " stdin ", string(q.Stdin), " timeout ", timeout)
}

func (r *toldRuns) GetExec(_ context.Context, id string, after shell.After) (shell.Events, error) {
	return r.events, r.ask("get ", id, " ", after.Seq, " ", after.Tail)
}

func (r *toldRuns) Follow(ctx context.Context, id string, after shell.After) (shell.Events, error) {
	return r.GetExec(ctx, id, after)
}

func (r *toldRuns) KillExec(_ context.Context, id, signal string) error {
	return r.ask("kill ", id, " ", signal)
}

func (r *toldRuns) List(_ context.Context, ended bool) ([]shell.Info, bool, error) {
	at := time.UnixMilli(1_800_000_000_123)
	about := shell.About{Command: "make", Cwd: "/w"}
	return []shell.Info{
		{ID: "a", About: about, Started: at, Ended: true, Code: -1},
		{ID: "b", About: about, Started: at, PID: 7},
	}[:r.listed], ended, r.ask("list ", ended)
}

func (r *toldRuns) DisposeExec(_ context.Context, id string) error { return r.ask("dispose ", id) }

type toldEvents struct {
	list   []shell.Event
	err    error
	closed chan struct{}
}

func (e *toldEvents) Next(context.Context) (shell.Event, error) {
	if len(e.list) == 0 {
		return shell.Event{}, e.err
	}
	out := e.list[0]
	e.list = e.list[1:]
	return out, nil
}

func (e *toldEvents) Close() { close(e.closed) }

// hear returns the next message, or what is in it if it is one of items: how many come
// in one depends on how fast they are.
func hear(t *testing.T, c *rpctest.Conversation) []string {
	t.Helper()
	msg := c.Hear()
	env, err := wire.ParseEnvelope([]byte(msg), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if env.Method != protocol.NotifyStreamItems {
		return []string{msg}
	}
	var p protocol.StreamItemsParams
	if err := wire.Unmarshal(env.Params, &p); err != nil {
		t.Fatal(err)
	}
	if p.StreamID != "1" || p.Bytes != int64(len(p.Items)) {
		t.Errorf("bytes are not the length of the items: %s", msg)
	}
	var out []string
	for items := wire.List(p.Items).Elements(); ; {
		item, ok := items.Next()
		if !ok {
			return out
		}
		out = append(out, string(item))
	}
}

// Requests that have all the places and do not end keep nobody from killing a run.
func TestKillNeedsNoPlaceOfOthers(t *testing.T) {
	table := rpc.NewTable()
	shell.Register(table)
	rpc.Handle(table, rpc.Spec[protocol.Empty]{Name: "test/hang"}, func(_ *shell.Service, ctx context.Context, _ *protocol.Empty) (protocol.Empty, error) {
		<-ctx.Done()
		return protocol.Empty{}, nil
	})
	runs := &toldRuns{}
	c := rpctest.Serve(t, table, func(n rpc.Notifier) []rpc.Service {
		return []rpc.Service{shell.NewService(runs, stream.New(n, stream.Config{}))}
	})
	for range rpc.DefaultConcurrency {
		c.Say(`{"id":1,"method":"test/hang"}`)
	}
	c.Say(`{"id":2,"method":"shell/killExec","params":{"id":"a"}}`)
	if got, want := c.Hear(), `{"id":2,"result":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Much output is told byte by byte as it was printed: buffers are used again, and not too
// early.
func TestWireMuch(t *testing.T) {
	t.Parallel()
	f := open(t)
	c := talk(t, f)
	c.Say(`{"id":1,"method":"shell/exec","params":{"command":"seq 1000000 1500000","window":100000000}}`)
	c.Hear()
	var got bytes.Buffer
	for ended := false; !ended; {
		for _, item := range hear(t, c) {
			var e protocol.ExecEvent
			if err := wire.Unmarshal([]byte(item), &e); err != nil {
				t.Fatal(err)
			}
			got.Write(e.Data)
			ended = e.Name == protocol.ExecExit
		}
	}
	var want bytes.Buffer
	for n := 1_000_000; n <= 1_500_000; n++ {
		fmt.Fprintln(&want, n)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes are not the %d that were printed", got.Len(), want.Len())
	}
}

// The messages of shell/* as they are on the wire.
func TestWireForms(t *testing.T) {
	for name, tt := range map[string]struct {
		params string
		end    error // of the events, io.EOF if nil
		hear   []string
		asked  string
	}{
		"exec": {
			`"shell/exec","params":{"command":"make","source":"no","cwd":"/w","id":"r","env":{"A":"b"},"stdin":"aW4=","timeoutMs":1500,"window":1000,"input":{},"more":1}`, nil,
			[]string{
				`{"id":1,"result":{"id":"r","events":{"streamId":"1"}}}`,
				`{"id":"r","seq":1,"name":"stdout","value":"AP8="}`,
				`{"id":"r","seq":2,"name":"stderr","value":""}`,
				`{"id":"r","seq":3,"name":"exit","value":-1,"code":-1}`,
				`{"method":"stream/end","params":{"streamId":"1"}}`,
			},
			"exec make in /w id r env map[A:b] stdin in timeout 1.5s",
		},
		"exec, as newer clients say it": {
			`"shell/exec","params":{"source":"","cwd":null,"id":null,"env":null,"stdin":null,"timeoutMs":0}`, nil,
			[]string{`{"id":1,"result":{"id":"new","events":{"streamId":"1"}}}`},
			"exec  in  id new env map[] stdin  timeout 0s",
		},
		"exec, with the longest time": {
			`"shell/exec","params":{"source":"x","timeoutMs":18446744073709551615}`, nil,
			[]string{`{"id":1,"result":{"id":"new","events":{"streamId":"1"}}}`},
			"exec x in  id new env map[] stdin  timeout 2562047h47m16.854s",
		},
		"exec of nothing": {
			`"shell/exec","params":{"id":"r"}`, nil,
			[]string{`{"error":{"code":-32012,"message":"there is no command","data":{"code":"EINVAL"}},"id":1}`},
			"",
		},
		"get": {
			`"shell/getExec","params":{"id":"r"}`, nil,
			[]string{`{"id":1,"result":{"id":"r","events":{"streamId":"1"}}}`},
			"get r 0 false",
		},
		"get, after an event": {
			`"shell/getExec","params":{"id":"r","after":12}`, nil,
			[]string{`{"id":1,"result":{"id":"r","events":{"streamId":"1"}}}`},
			"get r 12 false",
		},
		"get, from the present": {
			`"shell/getExec","params":{"id":"r","after":"tail"}`, nil,
			[]string{`{"id":1,"result":{"id":"r","events":{"streamId":"1"}}}`},
			"get r 0 true",
		},
		"get, after what is no event": {
			`"shell/getExec","params":{"id":"r","after":-1}`, nil,
			[]string{`{"error":{"code":-32602,"message":"shell/getExec: invalid type: expected a number or \"tail\""},"id":1}`},
			"",
		},
		"get what breaks off": {
			`"shell/getExec","params":{"id":"r"}`, &protocol.NamedError{Code: "ELOG_TRUNCATED", Message: "too long"},
			[]string{
				`{"id":1,"result":{"id":"r","events":{"streamId":"1"}}}`,
				`{"id":"r","seq":1,"name":"stdout","value":"AP8="}`,
				`{"id":"r","seq":2,"name":"stderr","value":""}`,
				`{"id":"r","seq":3,"name":"exit","value":-1,"code":-1}`,
				`{"method":"stream/end","params":{"streamId":"1","error":{"code":"ELOG_TRUNCATED","message":"too long"}}}`,
			},
			"get r 0 false",
		},
		"kill":         {`"shell/killExec","params":{"id":"r"}`, nil, []string{`{"id":1,"result":{}}`}, "kill r "},
		"kill, harder": {`"shell/killExec","params":{"id":"r","signal":"SIGKILL"}`, nil, []string{`{"id":1,"result":{}}`}, "kill r SIGKILL"},
		"list, of nothing": {
			`"shell/list","params":{}`, nil,
			[]string{`{"id":1,"result":{"runs":[],"truncated":false}}`},
			"list false",
		},
		"list": {
			`"shell/list","params":{"ended":true}`, nil,
			[]string{`{"id":1,"result":{"runs":[` +
				`{"id":"a","pid":null,"command":"make","cwd":"/w","startedAtMs":1800000000123,"exited":true,"exitCode":-1},` +
				`{"id":"b","pid":7,"command":"make","cwd":"/w","startedAtMs":1800000000123,"exited":false,"exitCode":null}],"truncated":true}}`},
			"list true",
		},
		"dispose": {`"shell/disposeExec","params":{"id":"r"}`, nil, []string{`{"id":1,"result":{}}`}, "dispose r"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := &toldRuns{events: &toldEvents{closed: make(chan struct{}), err: io.EOF, list: []shell.Event{
					{ID: "r", Seq: 1, Name: shell.Stdout, Data: []byte{0, 255}},
					{ID: "r", Seq: 2, Name: shell.Stderr},
					{ID: "r", Seq: 3, Name: shell.Exit, Code: -1},
				}}}
				if strings.Contains(tt.params, `"ended":true`) {
					runs.listed = 2
				}
				if tt.end != nil {
					runs.events.err = tt.end
				}
				c := talk(t, runs)
				c.Say(`{"id":1,"method":` + tt.params + `}`)
				var heard []string
				for len(heard) < len(tt.hear) {
					heard = append(heard, hear(t, c)...)
				}
				for i, want := range tt.hear {
					if heard[i] != want {
						t.Errorf("got  %s\nwant %s", heard[i], want)
					}
				}
				if got := strings.Join(runs.asked, ", "); got != tt.asked {
					t.Errorf("asked %q, want %q", got, tt.asked)
				}
			})
		})
	}
}

func TestWireErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&protocol.NamedError{Code: "EEXEC_BUSY", Message: "exec r is already running"}, `{"code":-32012,"message":"exec r is already running","data":{"code":"EEXEC_BUSY"}}`},
		{fmt.Errorf("get: %w", &protocol.NamedError{Code: "ENOENT", Message: "no exec record for id r"}), `{"code":-32012,"message":"no exec record for id r","data":{"code":"ENOENT"}}`},
		{errors.New("the database is locked"), `{"code":-32603,"message":"the database is locked"}`},
	} {
		c := talk(t, &toldRuns{err: tt.err})
		for _, request := range []string{
			`"shell/exec","params":{"command":"x"}`, `"shell/getExec","params":{"id":"r"}`,
			`"shell/killExec","params":{"id":"r"}`, `"shell/disposeExec","params":{"id":"r"}`, `"shell/list","params":{}`,
		} {
			c.Say(`{"id":1,"method":` + request + `}`)
			c.Want(`{"error":` + tt.want + `,"id":1}`)
		}
	}
}

// A run whose stream is cancelled can be followed by the next request, and lives on when
// its connection ends.
func TestWireFollow(t *testing.T) {
	f := open(t)
	g := newGate(t, f)
	c := talk(t, f.Shell)
	command, err := wire.Append(nil, "echo a; "+g.wait()+"; echo b; "+g.wait())
	if err != nil {
		t.Fatal(err)
	}
	c.Say(fmt.Sprintf(`{"id":1,"method":"shell/exec","params":{"command":%s,"id":"r","timeoutMs":0}}`, command))
	c.Want(`{"id":1,"result":{"id":"r","events":{"streamId":"1"},"lastSeq":0,"ended":false}}`)
	const a, b, end = `{"id":"r","seq":1,"name":"stdout","value":"YQo="}`, `{"id":"r","seq":2,"name":"stdout","value":"Ygo="}`, `{"id":"r","seq":3,"name":"exit","value":0,"code":0}`
	items := func(stream, items string) string {
		return fmt.Sprintf(`{"method":"stream/items","params":{"streamId":"%s","items":[%s],"bytes":%d}}`, stream, items, len(items)+2)
	}
	c.Want(items("1", a))
	c.Say(`{"id":2,"method":"shell/getExec","params":{"id":"r"}}`)
	c.Want(`{"id":2,"result":{"id":"r","events":{"streamId":"2"},"lastSeq":1,"ended":false}}`, items("2", a)) // beside the first
	c.Say(`{"method":"stream/cancel","params":{"streamId":"2"}}`)
	c.Say(`{"method":"stream/cancel","params":{"streamId":"1"}}`)
	c.Say(`{"id":3,"method":"shell/getExec","params":{"id":"r","after":1}}`)
	c.Want(`{"id":3,"result":{"id":"r","events":{"streamId":"3"},"lastSeq":1,"ended":false}}`)
	g.open()
	c.Want(items("3", b))
	c.End()
	c = talk(t, f.Shell)
	c.Say(`{"id":4,"method":"shell/getExec","params":{"id":"r","after":2}}`)
	c.Want(`{"id":4,"result":{"id":"r","events":{"streamId":"1"},"lastSeq":2,"ended":false}}`)
	g.open()
	c.Want(items("1", end), `{"method":"stream/end","params":{"streamId":"1"}}`)
	c.Say(`{"id":5,"method":"shell/getExec","params":{"id":"r","after":"tail"}}`)
	c.Want(`{"id":5,"result":{"id":"r","events":{"streamId":"2"},"lastSeq":3,"ended":true}}`, `{"method":"stream/end","params":{"streamId":"2"}}`)
}

// A client that reads slowly is sent no more than it has given credit for, and gets all.
func TestWireSlowReader(t *testing.T) {
	f := open(t)
	c := talk(t, f.Shell)
	const all = 3 << 20
	c.Say(fmt.Sprintf(`{"id":1,"method":"shell/exec","params":{"command":"head -c %d /dev/zero; echo end >&2","id":"r"}}`, all))
	if got := c.Hear(); !strings.Contains(got, `"streamId":"1"`) {
		t.Fatal(got)
	}
	var got, owed int
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		msg := c.Hear()
		env, err := wire.ParseEnvelope([]byte(msg), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if env.Method == protocol.NotifyStreamEnd {
			break
		}
		var p protocol.StreamItemsParams
		if err := wire.Unmarshal(env.Params, &p); err != nil {
			t.Fatal(err)
		}
		var events []protocol.ExecEvent
		if err := wire.Unmarshal(p.Items, &events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			got += len(e.Data)
		}
		if owed += int(p.Bytes); owed > protocol.ShellWindow+protocol.StreamBatchBytes {
			t.Fatalf("%d bytes came without credit", owed)
		}
		if owed > protocol.ShellWindow { // there is no more credit: the command waits
			c.Say(fmt.Sprintf(`{"method":"stream/credit","params":{"streamId":"1","bytes":%d}}`, owed))
			owed = 0
		}
	}
	if want := all + len("end\n"); got != want {
		t.Errorf("%d bytes came, want %d", got, want)
	}
}
