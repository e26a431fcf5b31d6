package computer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

var (
	alpha   = []byte("alpha")
	at      = time.UnixMilli(1795814700200)
	someOne = []tree.Entry{
		{Kind: tree.KindDir, Rev: 7, Path: "/workspace/src", Mode: 0o755, MTime: time.UnixMilli(1795814700123)},
		{Kind: tree.KindFile, Rev: 9, Path: "/workspace/src/a.txt", Mode: 0o644, MTime: at, Size: 5, Parts: []tree.Part{{Hash: tree.Sum(alpha), Size: 5}}},
		{Kind: tree.KindFile, Rev: 10, Path: "/workspace/src/empty", Mode: 0o644, MTime: time.UnixMilli(1795814700201)},
		{Kind: tree.KindSymlink, Rev: 11, Path: "/workspace/l", Mode: 0o777, MTime: time.UnixMilli(1795814700300), Target: "src/a.txt"},
		{Kind: tree.KindDelete, Rev: 12, Path: "/workspace/old"},
		{Kind: tree.KindDelete, Rev: 13, Path: "/workspace/older", Prior: "8005b43fb02a795e6a11dd305b107499b10af35fb7fb66a8411cdb323a4f4434"},
	}
	// The same as they are sent, which are the examples of the protocol.
	wireEntries = []string{
		`{"kind":"dir","rev":7,"path":"/workspace/src","mode":493,"mtime":1795814700123}`,
		`{"kind":"file","rev":9,"path":"/workspace/src/a.txt","mode":420,"mtime":1795814700200,"size":5,"chunks":[[{"hash":["bytes","jtP2rWhblZ6tcCJRjhr3bNgW+OjsfM3aHtQBjo8iI/g"],"size":5}]]}`,
		`{"kind":"file","rev":10,"path":"/workspace/src/empty","mode":420,"mtime":1795814700201,"size":0,"chunks":[[]]}`,
		`{"kind":"symlink","rev":11,"path":"/workspace/l","target":"src/a.txt","mode":511,"mtime":1795814700300}`,
		`{"kind":"delete","rev":12,"path":"/workspace/old"}`,
		`{"kind":"delete","rev":13,"path":"/workspace/older","prior":"8005b43fb02a795e6a11dd305b107499b10af35fb7fb66a8411cdb323a4f4434"}`,
	}
)

// Each call is answered with exactly these bytes.
func TestAnswers(t *testing.T) {
	hash := tree.Sum(alpha)
	const alphaHash = `["bytes","jtP2rWhblZ6tcCJRjhr3bNgW+OjsfM3aHtQBjo8iI/g"]`
	for _, c := range []struct{ name, call, want string }{
		{"watermarks", `["sync","watermarks"],[]`, `{"currentRev":7,"pushRev":2,"fetchCursor":{"rev":3,"path":null}}`},
		{"watermarks settled", `["sync","watermarks"],[{"settle":true}]`, `{"currentRev":7,"pushRev":2,"fetchCursor":{"rev":3,"path":null}}`},
		{"watermarks with nothing said", `["sync","watermarks"],[{"settle":["undefined"]}]`, `{"currentRev":7,"pushRev":2,"fetchCursor":{"rev":3,"path":null}}`},
		{"watermarks of nothing", `["sync","watermarks"],[["undefined"]]`, `{"currentRev":7,"pushRev":2,"fetchCursor":{"rev":3,"path":null}}`},
		{"hasObjects of none", `["sync","hasObjects"],[[[]]]`, `[[]]`},
		{"hasObjects with doubles", `["sync","hasObjects"],[[[` + alphaHash + `,["bytes","AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],` + alphaHash + `]]]`, `[[` + alphaHash + `,` + alphaHash + `]]`},
		{"hasObjects padded", `["sync","hasObjects"],[[[["bytes","jtP2rWhblZ6tcCJRjhr3bNgW+OjsfM3aHtQBjo8iI/g="]]]]`, `[[` + alphaHash + `]]`},
		{"readEntry", `["sync","readEntry"],["/workspace/src/a.txt"]`, wireEntries[1]},
		{"readEntry of a tomb", `["sync","readEntry"],["/workspace/old"]`, wireEntries[4]},
		{"readEntry of nothing", `["sync","readEntry"],["/nothing"]`, `null`},
		{"killExec", `["shell","killExec"],[{"id":"there"}]`, `["undefined"]`},
		{"disposeExec", `["shell","disposeExec"],[{"id":"nowhere"}]`, `["undefined"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.peer.at.CurrentRev, w.peer.at.PushRev, w.peer.at.Fetch = 7, 2, tree.At(3)
			w.peer.objects[hash], w.peer.entries = alpha, someOne
			w.runs.runs["there"] = &fakeRun{id: "there", grown: make(chan struct{})}
			if diff := cmp.Diff(`["resolve",1,`+c.want+`]`, ask(t, w.socket(t, "/ws"), c.call)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each call is refused with exactly these bytes.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, call, want string }{
		{"a bad path", `["sync","readEntry"],["bad"]`, `["error","WorkspaceFsError","read bad: invalid argument: not an absolute, canonical path",null,{"code":"EINVAL","path":"bad"}]`},
		{"an unknown hash", `["sync","fetchObjects"],[[[["bytes","AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]]]]`, `["error","WorkspaceFsError","chunk 0000000000000000000000000000000000000000000000000000000000000000 is not held",null,{"code":"EUNKNOWN_HASH"}]`},
		{"a short hash", `["sync","hasObjects"],[[[["bytes","AAAA"]]]]`, `["error","WorkspaceFsError","a hash of 3 bytes",null,{"code":"EINVAL"}]`},
		{"a hash that is text", `["sync","hasObjects"],[[["AAAA"]]]`, `["error","TypeError","argument 1: [0]: a string where []uint8 is wanted",null,{"code":"EINVAL"}]`},
		{"a push of nothing", `["sync","push"],[{"senderRev":1}]`, `["error","TypeError","changes must be given",null,{"code":"EINVAL"}]`},
		{"no objects", `["sync","pushObjects"],[]`, `["error","TypeError","a stream of objects must be given",null,{"code":"EINVAL"}]`},
		{"no pack", `["sync","applyChangePack"],[{"generation":"g"}]`, `["error","TypeError","the stream of the pack must be given",null,{"code":"EINVAL"}]`},
		{"no command", `["shell","exec"],[{"source":["undefined"]}]`, `["error","ExecError","exec needs the command as source or command",null,{"code":"EINVAL"}]`},
		{"no input", `["shell","exec"],[]`, `["error","ExecError","exec needs the command as source or command",null,{"code":"EINVAL"}]`},
		{"an id that is none", `["shell","exec"],[{"source":"true","id":5}]`, `["error","ExecError","id must be a string",null,{"code":"EINVAL"}]`},
		{"an environment of numbers", `["shell","exec"],[{"source":"true","env":{"A":1}}]`, `["error","ExecError","env must have strings only",null,{"code":"EINVAL"}]`},
		{"a negative time", `["shell","exec"],[{"source":"true","timeoutMs":-1}]`, `["error","ExecError","timeoutMs must not be negative",null,{"code":"EINVAL"}]`},
		{"half an event", `["shell","getExec"],[{"id":"there","after":1.5}]`, `["error","ExecError","after must be a whole number",null,{"code":"EINVAL"}]`},
		{"an unknown run", `["shell","getExec"],[{"id":"x7"}]`, `["error","ExecError","no exec record for id x7",null,{"code":"ENOENT"}]`},
		{"a kill of an unknown run", `["shell","killExec"],[{"id":"x7","signal":"SIGINT"}]`, `["error","ExecError","no exec record for id x7",null,{"code":"ENOENT"}]`},
		{"no such method", `["sync","nosuch"],[]`, `["error","TypeError","'sync.nosuch' is not a function."]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			if diff := cmp.Diff(`["reject",1,`+c.want+`]`, ask(t, w.socket(t, "/api"), c.call)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A whole run, as the protocol's example has it, with both names of the command and of
// the exit code.
func TestExecOnTheWire(t *testing.T) {
	for _, name := range []string{"command", "source"} {
		w := newWorld(t)
		ws := w.socket(t, "/ws")
		say(t, ws, `["push",["pipeline",0,["shell","exec"],[{"`+name+`":"echo hi","id":["undefined"],"cwd":["undefined"],"timeoutMs":["undefined"],"env":["undefined"],"stdin":["undefined"]}]]]`, `["pull",1]`)
		for _, want := range []string{`["pipe"]`, `["resolve",1,{"id":"made","events":["readable",1]}]`} {
			if got := hear(t, ws); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		run := w.runs.run("made")
		run.add(newEvent("stdout", "hi\n"))
		if got, want := hear(t, ws), `["stream",["pipeline",1,["write"],[{"id":"made","seq":1,"name":"stdout","value":["bytes","aGkK"]}]]]`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		run.add(newEvent("exit", ""))
		for _, want := range []string{
			`["stream",["pipeline",1,["write"],[{"id":"made","seq":2,"name":"exit","value":0,"code":0}]]]`,
			`["stream",["pipeline",1,["close"],[]]]`,
		} {
			if got := hear(t, ws); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		say(t, ws, `["release",1,1]`, `["resolve",2,["undefined"]]`, `["resolve",3,["undefined"]]`, `["resolve",4,["undefined"]]`)
		if got, want := hear(t, ws), `["release",1,1]`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if r := w.runs.requests[0]; r.Command != "echo hi" || r.ID != "" || r.Cwd != "" || r.Timeout != nil || r.Env != nil || r.Stdin != nil {
			t.Errorf("the request was %+v", r)
		}
		eventually(t, "the run is followed no more", func() bool { return !run.followed() })
	}
}

// A push, as the protocol's example has it.
func TestPushOnTheWire(t *testing.T) {
	w := newWorld(t)
	ws := w.socket(t, "/ws")
	say(t, ws, `["pipe"]`, `["push",["pipeline",0,["sync","push"],[{"senderRev":3,"changes":["readable",1]}]]]`)
	for _, e := range wireEntries {
		say(t, ws, `["stream",["pipeline",1,["write"],[`+e+`]]]`)
	}
	say(t, ws, `["pull",2]`, `["stream",["pipeline",1,["close"],[]]]`)
	answers := map[string]bool{}
	for range len(wireEntries) + 2 {
		answers[hear(t, ws)] = true
	}
	for _, want := range []string{
		`["resolve",3,["undefined"]]`, `["resolve",9,["undefined"]]`,
		`["resolve",2,{"rev":46,"applied":6,"appliedPushCursor":{"rev":3,"path":null}}]`,
	} {
		if !answers[want] {
			t.Errorf("%s is not among %v", want, answers)
		}
	}
	if diff := cmp.Diff(someOne, w.peer.entries); diff != "" {
		t.Error(diff)
	}
}
