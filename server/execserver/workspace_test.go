package execserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	wsd "github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/computer"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/lineage"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/auth"
	"github.com/wsd-dev/wsd/server/execserver"
	"github.com/wsd-dev/wsd/server/workspace"
)

// openWorkspace opens one in a new directory, closed at the end of the test.
func openWorkspace(t *testing.T) *workspace.Workspace {
	t.Helper()
	return reopenWorkspace(t, workspace.Config{
		Dir: t.TempDir(), Store: filepath.Join(t.TempDir(), "store.db"), MountPoint: filepath.Join(t.TempDir(), "workspace"),
	})
}

func reopenWorkspace(t *testing.T, cfg workspace.Config) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.Disk.Check(context.Background()), w.Close()); err != nil {
			t.Errorf("close the workspace: %v", err)
		}
	})
	return w
}

// served is a workspace that is served.
type served struct {
	*workspace.Workspace
	srv    *server.Server
	secret string
	host   string // and port
	socket string // path
}

// serveWorkspace serves one with a secret, unless that is empty.
func serveWorkspace(t *testing.T, secret string) *served {
	t.Helper()
	w := openWorkspace(t)
	policy, err := auth.New(auth.Config{Secret: auth.Secret(secret)})
	if err != nil {
		t.Fatal(err)
	}
	var cfg execserver.Config
	srv := newServer(t, func(c *execserver.Config) {
		c.Workspace = w
		cfg = *c
	})
	web := server.HTTPConfig{Version: cfg.Version, Routes: execserver.Routes(srv, cfg)}
	if policy != nil {
		web.Authorize = policy.Authorize
	}
	s := &served{Workspace: w, srv: srv, secret: secret, socket: filepath.Join(shortDir(t), "s")}
	var endpoints []*server.Endpoint
	for _, url := range []string{"", "unix://" + s.socket} {
		endpoint, err := srv.Listen(server.EndpointConfig{URL: url, HTTP: web})
		if err != nil {
			t.Fatal(err)
		}
		endpoints = append(endpoints, endpoint)
	}
	s.host = strings.TrimPrefix(endpoints[0].URL(), "ws://")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx, endpoints...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wsd") //nolint:usetesting // t.TempDir's are long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// pair connects by no socket at all.
func (s *served) pair(t *testing.T) *wsd.Client {
	t.Helper()
	a, b := rpc.Pair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.srv.ServeConnection(context.Background(), a, server.ConnectionOptions{Final: true}) // how it ends is not the point
	}()
	c, err := wsd.New(t.Context(), b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// Hosts are told what is ignored: some connect to no server that does otherwise.
func TestWorkspaceInfo(t *testing.T) {
	for _, tt := range []struct {
		ignore []string
		want   string
	}{
		{nil, `[]`},
		{[]string{}, `[]`},
		{[]string{".cache", "out"}, `["**/.cache","**/out"]`},
	} {
		w := reopenWorkspace(t, workspace.Config{
			Dir: t.TempDir(), Store: filepath.Join(t.TempDir(), "store.db"), MountPoint: "/nowhere/to/be", Ignore: tt.ignore,
		})
		var cfg execserver.Config
		srv := newServer(t, func(c *execserver.Config) {
			c.Workspace = w
			cfg = *c
		})
		got := httptest.NewRecorder()
		execserver.Routes(srv, cfg)["/__computerd/info"].ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), "GET", "/__computerd/info", nil))
		if want := `{"mountPoint":"/nowhere/to/be","version":"test","ignore":{"supported":true,"patterns":` + tt.want + `},"workspacePlace":{"dir":"` + w.Dir + `"`; !strings.HasPrefix(got.Body.String(), want) {
			t.Errorf("%q: got %s, want %s", tt.ignore, got.Body, want)
		}
	}
}

// Any number follow one run, over several connections. Each gets every byte, and one that
// does not read holds up nobody.
func TestF8FollowersOfOneRun(t *testing.T) {
	const connections = 3
	for _, tt := range []struct{ each, lines int }{{100, 2000}, {1, 300_000}} {
		s := serveWorkspace(t, "")
		var clients []*wsd.Client
		for range connections {
			c, err := wsd.Dial(t.Context(), "ws://"+s.host, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			clients = append(clients, c)
		}
		line := fmt.Sprintf("until [ -e go ]; do sleep 0.01; done; seq 1 %d", tt.lines)
		begun, err := clients[0].Exec(t.Context(), wsd.DurableCommand{ID: "x", Line: line})
		if err != nil {
			t.Fatal(err)
		}
		begun.Close()
		slow, err := clients[0].GetExec(t.Context(), "x", 0)
		if err != nil {
			t.Fatal(err)
		}
		outputs := make(chan string, connections*tt.each)
		read := func(run *wsd.Run) {
			defer run.Close()
			var out bytes.Buffer
			code, err := run.Wait(t.Context(), &out, &out)
			if err != nil || code != 0 {
				t.Errorf("the run ends with %d, %v", code, err)
			}
			outputs <- out.String()
		}
		for _, c := range clients {
			for range tt.each {
				run, err := c.GetExec(t.Context(), "x", 0)
				if err != nil {
					t.Fatal(err)
				}
				go read(run)
			}
		}
		if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for i := range tt.lines {
			fmt.Fprintln(&want, i+1)
		}
		for range connections * tt.each {
			if got := <-outputs; got != want.String() {
				t.Errorf("a follower got %d of %d bytes", len(got), want.Len())
			}
		}
		read(slow)
		if got := <-outputs; got != want.String() {
			t.Errorf("the slow follower got %d of %d bytes", len(got), want.Len())
		}
	}
}

// The run after the last that is possible is refused on each wire, leaves no record, and takes
// nothing from those that are live. One that ends makes room.
func TestRun257(t *testing.T) {
	s := serveWorkspace(t, "")
	published, err := computer.Dial(t.Context(), "ws://"+s.host+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { published.Close() })
	ours, err := wsd.Dial(t.Context(), "ws://"+s.host, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	var first shell.Events
	for i := range shell.DefaultMaxRuns {
		_, events, err := published.Exec(t.Context(), shell.Request{ID: fmt.Sprint("run ", i), Command: "exec sleep 1000"})
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		if first == nil {
			first = events
		}
		t.Cleanup(events.Close)
	}
	refused := func(id, text string) {
		t.Helper()
		_, _, err := published.Exec(t.Context(), shell.Request{ID: id, Command: "true"})
		if !errors.Is(err, &protocol.NamedError{Code: shell.CodeBusy}) || !strings.Contains(err.Error(), text) {
			t.Errorf("the published wire says %v", err)
		}
		_, err = ours.Exec(t.Context(), wsd.DurableCommand{ID: id, Line: "true"})
		if failure, ok := errors.AsType[*wsd.Error](err); !ok || failure.Name != shell.CodeBusy || !strings.Contains(err.Error(), text) {
			t.Errorf("our wire says %v", err)
		}
	}
	refused("more", "256 commands are running, as many as are possible")
	refused("run 3", "exec run 3 is already running")
	if _, err := published.GetExec(t.Context(), "more", shell.After{}); !errors.Is(err, &protocol.NamedError{Code: shell.CodeNotFound}) {
		t.Errorf("the run that was refused: %v", err)
	}
	if err := published.KillExec(t.Context(), "run 0", "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if out, code := follow(t, first); out != "" || code != 143 {
		t.Errorf("it printed %q and ended with %d", out, code)
	}
	_, events, err := published.Exec(t.Context(), shell.Request{ID: "more", Command: "echo more"})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := follow(t, events); out != "more\n" || code != 0 {
		t.Errorf("it printed %q and ended with %d", out, code)
	}
}

// A carrier is a way to a workspace.
type carrier struct {
	name string
	peer changes.Peer
	// run runs a command and returns what it printed and its exit code.
	run func(t *testing.T, line string) (string, int)
}

// carriers connects to a server in every way that there is.
func (s *served) carriers(t *testing.T) (all []carrier) {
	t.Helper()
	overRPC := func(name string, c *wsd.Client) {
		all = append(all, carrier{"JSON-RPC over " + name, c.Sync(), func(t *testing.T, line string) (string, int) {
			run, err := c.Exec(t.Context(), wsd.DurableCommand{Line: line})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			var out bytes.Buffer
			code, err := run.Wait(t.Context(), &out, &out)
			if err != nil {
				t.Fatal(err)
			}
			return out.String(), code
		}})
	}
	overRPC("a pair", s.pair(t))
	for _, url := range []string{"ws://" + s.host, "unix://" + s.socket} {
		c, err := wsd.Dial(t.Context(), url, &wsd.Options{BearerToken: s.secret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		overRPC(url[:strings.Index(url, ":")], c)
	}
	for _, url := range []string{"ws://" + s.host + "/ws", "ws://" + s.host + "/api", "unix://" + s.socket} {
		c, err := computer.Dial(t.Context(), url, &computer.Options{Secret: s.secret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all = append(all, carrier{"capnweb over " + url[:strings.Index(url, ":")] + url[strings.LastIndex(url, "/"):], c, func(t *testing.T, line string) (string, int) {
			_, events, err := c.Exec(t.Context(), shell.Request{Command: line})
			if err != nil {
				t.Fatal(err)
			}
			return follow(t, events)
		}})
	}
	return all
}

func follow(t *testing.T, events shell.Events) (string, int) {
	t.Helper()
	defer events.Close()
	var out bytes.Buffer
	for {
		e, err := events.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == shell.Exit {
			return out.String(), e.Code
		}
		out.Write(e.Data)
	}
}

// pushFile pushes a file.
func pushFile(t *testing.T, peer changes.Peer, path, content string) {
	t.Helper()
	data := tree.Data{Hash: tree.Sum([]byte(content)), Bytes: []byte(content)}
	if err := peer.PushObjects(t.Context(), changes.FromSlice([]tree.Data{data})); err != nil {
		t.Fatal(err)
	}
	entry := tree.Entry{
		Kind: tree.KindFile, Rev: 1, Path: path, Mode: 0o644, MTime: time.UnixMilli(1795814700123), Size: int64(len(content)),
		Parts: []tree.Part{{Hash: data.Hash, Size: int64(len(content))}},
	}
	if _, err := peer.Push(t.Context(), changes.PushInput{}, changes.FromSlice([]tree.Entry{entry})); err != nil {
		t.Fatal(err)
	}
}

// fetchFile returns the content of a path that has changed since a cursor.
func fetchFile(t *testing.T, peer changes.Peer, after tree.Cursor, path string) string {
	t.Helper()
	fetch, err := peer.FetchChanges(t.Context(), changes.FetchQuery{After: after, Ignore: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := changes.Collect(t.Context(), fetch.Entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Path != path {
			continue
		}
		objects, err := peer.FetchObjects(t.Context(), []tree.Hash{e.Parts[0].Hash})
		if err != nil {
			t.Fatal(err)
		}
		data, err := changes.Collect(t.Context(), objects)
		if err != nil {
			t.Fatal(err)
		}
		return string(data[0].Bytes)
	}
	t.Fatalf("%s is not among %d changes", path, len(entries))
	return ""
}

// The round trip by each carrier: push a file, run a command that sees it, fetch what that
// wrote. All of them are of the same workspace.
func TestWorkspaceRoundTrip(t *testing.T) {
	w := serveWorkspace(t, "a secret of the test")
	all := w.carriers(t)
	for i, c := range all {
		t.Run(c.name, func(t *testing.T) {
			marks, err := c.peer.Watermarks(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			pushFile(t, c.peer, w.MountPoint+"/in", "pushed by "+c.name)
			if out, code := c.run(t, "tr a-z A-Z <in | tee out"); out != strings.ToUpper("pushed by "+c.name) || code != 0 {
				t.Errorf("the command: %q, %d", out, code)
			}
			other := all[(i+1)%len(all)] // sees it as well
			for _, peer := range []changes.Peer{c.peer, other.peer} {
				if got := fetchFile(t, peer, tree.At(marks.CurrentRev), w.MountPoint+"/out"); got != strings.ToUpper("pushed by "+c.name) {
					t.Errorf("fetched %q", got)
				}
			}
		})
	}
}

// F3: a name that is not UTF-8 is on disk for commands, and hidden from capnweb, whose clients cannot
// have it: a directory that they remove stays with it.
func TestF3NamesOfAnyBytesByCarrier(t *testing.T) {
	w := serveWorkspace(t, "")
	for i, c := range w.carriers(t) {
		t.Run(c.name, func(t *testing.T) {
			dir := fmt.Sprintf("%s/d%d", w.MountPoint, i)
			line := fmt.Sprintf(`mkdir d%d && cd d%d && echo x >"$(printf 'caf\351')" && echo y >plain && ls | od -An -c | tr -d ' \n'`, i, i)
			if out, code := c.run(t, line); out != `caf351\nplain\n` || code != 0 {
				t.Fatalf("the command: %q, %d", out, code)
			}
			marks, err := c.peer.Watermarks(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := c.peer.ReadEntry(t.Context(), dir+"/caf\U0010FEE9")
			if err != nil || (raw != nil) != marks.AnyNames || marks.AnyNames != strings.HasPrefix(c.name, "JSON-RPC") {
				t.Errorf("%v: it is %+v, %v", marks.AnyNames, raw, err)
			}
			f, err := c.peer.FetchChanges(t.Context(), changes.FetchQuery{Ignore: []string{}})
			if err != nil {
				t.Fatal(err)
			}
			list, err := changes.Collect(t.Context(), f.Entries)
			if err != nil {
				t.Fatal(err)
			}
			seen := slices.ContainsFunc(list, func(e tree.Entry) bool { return strings.HasPrefix(e.Path, dir+"/caf") })
			if seen != marks.AnyNames {
				t.Errorf("it is listed: %v", seen)
			}
			gone := tree.Entry{Kind: tree.KindDelete, Rev: 1, Path: dir}
			if _, err := c.peer.Push(t.Context(), changes.PushInput{}, changes.FromSlice([]tree.Entry{gone})); err != nil {
				t.Fatal(err)
			}
			left := "ls"
			if !marks.AnyNames {
				left = "cat caf?"
			}
			out, _ := c.run(t, fmt.Sprintf("cd d%d 2>/dev/null && %s; true", i, left))
			if want := map[bool]string{true: "", false: "x\n"}[marks.AnyNames]; out != want {
				t.Errorf("the directory has %q, want %q", out, want)
			}
		})
	}
}

// A run is the same over every carrier.
func TestWorkspaceRunsAreShared(t *testing.T) {
	w := serveWorkspace(t, "")
	id, events, err := w.Runs.Exec(t.Context(), shell.Request{ID: "shared", Command: "echo out"})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := follow(t, events); out != "out\n" || code != 0 {
		t.Fatalf("%q, %d", out, code)
	}
	c, err := wsd.Dial(t.Context(), "ws://"+w.host, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run, err := c.GetExec(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, err := run.Wait(t.Context(), &out, &out); err != nil || code != 0 || out.String() != "out\n" {
		t.Errorf("over JSON-RPC: %q, %d, %v", out.String(), code, err)
	}
	other, err := computer.Dial(t.Context(), "ws://"+w.host, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	again, err := other.GetExec(t.Context(), id, shell.After{})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := follow(t, again); out != "out\n" || code != 0 {
		t.Errorf("over capnweb: %q, %d", out, code)
	}
}

// The secret lets in, on every page; only what says that the server lives needs none.
func TestWorkspaceSecret(t *testing.T) {
	host := serveWorkspace(t, "s3cret").host
	ask := func(method, path, authorization string) (status int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.Contains(string(body), "s3cret") {
			t.Errorf("%s %s: %q, %v", method, path, body, err)
		}
		return resp.StatusCode
	}
	for _, path := range []string{"/api", "/ws", "/connect", "/api/watermarks", "/__computerd/info", "/metrics", "/no/such/page"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			for _, wrong := range []string{"", "Bearer wrong", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"} {
				if status := ask(method, path, wrong); status != http.StatusUnauthorized {
					t.Errorf("%s %s with %q: %d, want 401", method, path, wrong, status)
				}
			}
			for _, right := range []string{"Bearer s3cret", "bearer s3cret", "BEARER s3cret"} {
				if status := ask(method, path, right); status == http.StatusUnauthorized {
					t.Errorf("%s %s with %q: 401", method, path, right)
				}
			}
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if status := ask(method, "/health", ""); status != http.StatusOK {
			t.Errorf("%s /health: %d", method, status)
		}
	}
	if status := ask(http.MethodGet, "/api/watermarks", "Bearer s3cret"); status != http.StatusOK {
		t.Errorf("watermarks: %d", status)
	}
	for _, path := range []string{"", "/ws", "/api"} {
		if c, err := computer.Dial(t.Context(), "ws://"+host+path, &computer.Options{Secret: "wrong"}); err == nil {
			t.Errorf("a session at %q for a wrong secret: %v", path, c.Close())
		}
	}
	if c, err := wsd.Dial(t.Context(), "ws://"+host, &wsd.Options{BearerToken: "wrong"}); err == nil {
		t.Errorf("a JSON-RPC connection for a wrong secret: %v", c.Close())
	}
}

// Only a server with a workspace announces one, and has its methods.
func TestWorkspaceIsAnnounced(t *testing.T) {
	w := openWorkspace(t)
	peer, result := connectPeer(t, execserver.Config{Workspace: w})
	info := result.EnvironmentInfo
	for name := range workspaceCapabilities {
		if !info.Capabilities[name] {
			t.Errorf("%s is not announced", name)
		}
	}
	if info.WorkspaceMount != w.MountPoint {
		t.Errorf("the mount point is told as %q, want %q", info.WorkspaceMount, w.MountPoint)
	}
	if ids, err := lineage.Of(w.Dir); err != nil || info.WorkspacePlace == nil || !slices.Equal(info.WorkspacePlace.Lineage, ids) {
		t.Errorf("its place is told as %+v, want %v, %v", info.WorkspacePlace, ids, err)
	}
	if store := strconv.FormatInt(w.Born.UnixNano(), 36); w.Born.IsZero() || info.WorkspacePlace.Store != store {
		t.Errorf("its store is told as %q, want %q", info.WorkspacePlace.Store, store)
	}
	var marks protocol.WatermarksResult
	call(t, peer, protocol.MethodSyncWatermarks, &protocol.WatermarksParams{Settle: true}, &marks)
	if marks.CurrentRev <= 0 {
		t.Errorf("watermarks over a pair: %+v", marks)
	}
	var done protocol.CollectResult
	call(t, peer, protocol.MethodWorkspaceCollect, nil, &done)

	peer, result = connectPeer(t, execserver.Config{})
	if info := result.EnvironmentInfo; info.WorkspaceMount != "" || info.WorkspacePlace != nil {
		t.Errorf("a mount point of no workspace: %q", info.WorkspaceMount)
	}
	for name, methods := range workspaceCapabilities {
		if result.EnvironmentInfo.Capabilities[name] {
			t.Errorf("%s is announced, and there is no workspace", name)
		}
		for _, method := range methods {
			failure, ok := errors.AsType[*protocol.Error](peer.Call(t.Context(), method, &protocol.Empty{}, nil))
			if !ok || failure.Code != protocol.CodeMethodNotFound {
				t.Errorf("%s without a workspace: %v", method, failure)
			}
		}
	}
}

// Processes whose directory is at the mount point are in the workspace, sandboxed ones too.
func TestProcessAtTheMountPoint(t *testing.T) {
	w := serveWorkspace(t, "")
	if err := os.WriteFile(filepath.Join(w.Dir, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := wsd.Dial(t.Context(), "ws://"+w.host, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, box := range map[string]*protocol.Sandbox{
		"free": nil, "that only reads": wsd.ReadOnly(w.MountPoint), "that writes there": wsd.WorkspaceWrite(w.MountPoint),
	} {
		p, err := c.Start(t.Context(), wsd.Command{Argv: []string{"sh", "-c", "cat file; pwd; echo x 2>/dev/null >made && rm made && echo wrote"}, Dir: w.MountPoint, Sandbox: box})
		if err != nil {
			t.Fatalf("a process %s: %v", name, err)
		}
		out, err := io.ReadAll(p.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		want := w.MountPoint
		if w.Unmounted() != nil {
			want = w.Dir
		}
		want = "content" + want + "\n"
		if name != "that only reads" {
			want += "wrote\n"
		}
		if string(out) != want {
			t.Errorf("a process %s: %q, want %q", name, out, want)
		}
	}
}

// What a process of a session printed, and how it ended, is known to the next server.
func TestProcessLogSurvivesTheServer(t *testing.T) {
	cfg := workspace.Config{Dir: t.TempDir(), Store: filepath.Join(t.TempDir(), "store.db"), MountPoint: filepath.Join(t.TempDir(), "workspace")}
	read := func(peer *rpc.Peer) (text string, result protocol.ReadResult) {
		call(t, peer, protocol.MethodProcessRead, &protocol.ReadParams{ProcessID: "p"}, &result)
		for _, chunk := range result.Chunks {
			text += string(chunk.Chunk)
		}
		return text, result
	}
	t.Run("the first", func(t *testing.T) {
		peer, result := connectPeer(t, execserver.Config{Workspace: reopenWorkspace(t, cfg)})
		if !result.EnvironmentInfo.Capabilities[protocol.CapDurableLog] {
			t.Error("durableLog is not announced")
		}
		call(t, peer, protocol.MethodProcessStart, &protocol.StartParams{
			ProcessID: "p", Argv: []string{"/bin/sh", "-c", "echo out; exit 7"}, Cwd: fileuri.Format(cfg.MountPoint), Env: map[string]string{},
		}, nil)
		for {
			if _, result := read(peer); result.Closed {
				break
			}
		}
	})
	t.Run("the next", func(t *testing.T) {
		peer, _ := connectPeer(t, execserver.Config{Workspace: reopenWorkspace(t, cfg)})
		text, result := read(peer)
		if text != "out\n" || !result.Closed || result.ExitCode == nil || *result.ExitCode != 7 {
			t.Errorf("%q, %+v", text, result)
		}
	})
}
