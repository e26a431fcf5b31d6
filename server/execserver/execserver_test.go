package execserver_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

// connectPeer serves one end of a Pair and returns the other, initialized, with the
// answer to initialize.
func connectPeer(t *testing.T, cfg execserver.Config) (*rpc.Peer, protocol.InitializeResult) {
	t.Helper()
	srv, err := execserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, b := rpc.Pair()
	peer := rpc.NewPeer(b, rpc.PeerConfig{})
	served, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.ServeConnection(context.Background(), a, server.ConnectionOptions{})
	}()
	go func() { defer close(read); _ = peer.Serve(context.Background()) }()
	t.Cleanup(func() {
		peer.Close()
		<-read
		<-served
		srv.Close()
	})
	var result protocol.InitializeResult
	call(t, peer, protocol.MethodInitialize, &protocol.InitializeParams{ClientName: "test"}, &result)
	if err := peer.Notify(t.Context(), protocol.NotifyInitialized, &protocol.Empty{}); err != nil {
		t.Fatal(err)
	}
	return peer, result
}

func call(t *testing.T, peer *rpc.Peer, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := peer.Call(ctx, method, params, result); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// methodCapabilities are the capabilities that stand for methods of their own.
var methodCapabilities = map[string][]string{
	protocol.CapFsWatchMissing:        {"fs/watchMissing"},
	protocol.CapFileWriteStreaming:    {"fs/writeBlock"},
	protocol.CapProcessResize:         {"process/resize"},
	protocol.CapProcessCloseStdin:     {"process/closeStdin"},
	protocol.CapProcessList:           {"process/list"},
	protocol.CapFsRename:              {"fs/rename"},
	protocol.CapFsSymlink:             {"fs/symlink"},
	protocol.CapFsReadLink:            {"fs/readLink"},
	protocol.CapFsChmod:               {"fs/chmod"},
	protocol.CapFsGlob:                {"fs/glob"},
	protocol.CapFsGrep:                {"fs/grep"},
	protocol.CapFsWatch:               {"fs/watch", "fs/unwatch"},
	protocol.CapCapabilityDiscoveryV2: {"capabilities/discoverV2"},
}

// workspaceCapabilities are those of a server with a workspace only.
var workspaceCapabilities = map[string][]string{
	protocol.CapWorkspaceCollect: {"workspace/collect"},
	protocol.CapShell:            {"shell/disposeExec", "shell/exec", "shell/getExec", "shell/killExec"},
	protocol.CapShellList:        {"shell/list"},
	protocol.CapHistory:          {"history/list", "history/read"},
	protocol.CapSync: {
		"sync/applyChangePack", "sync/await", "sync/fetchChangePack", "sync/fetchChanges", "sync/fetchObjects", "sync/hasObjects",
		"sync/lost", "sync/push", "sync/pushObjects", "sync/readEntry", "sync/watermarks",
	},
}

// always are the methods that clients call without asking for a capability.
var always = []string{
	"capabilityRoots/discoverV1", "environment/info", "environment/status",
	"fs/canonicalize", "fs/close", "fs/copy", "fs/createDirectory", "fs/getMetadata", "fs/open", "fs/readBlock",
	"fs/readDirectory", "fs/readFile", "fs/remove", "fs/walk", "fs/writeFile",
	"http/request", "initialize",
	"process/read", "process/signal", "process/start", "process/terminate", "process/write",
}

// The methods of the table are those that clients may always call and those that the
// announced capabilities stand for: no more, no less.
func TestCapabilitiesAreTheMethods(t *testing.T) {
	_, result := connectPeer(t, execserver.Config{})
	announced := result.EnvironmentInfo.Capabilities
	want := slices.Clone(always)
	for name, methods := range methodCapabilities {
		if !announced[name] {
			t.Errorf("%s is not announced", name)
		}
		want = append(want, methods...)
	}
	for name, methods := range workspaceCapabilities {
		if announced[name] {
			t.Errorf("%s is announced, and there is no workspace", name)
		}
		want = append(want, methods...)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, execserver.Table().Names()); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}

func TestCapabilities(t *testing.T) {
	want := slices.Collect(maps.Keys(methodCapabilities))
	want = append(want, protocol.CapHTTPHeaderEnvVars, protocol.CapProcessSignals, protocol.CapProcessTimeout,
		protocol.CapProcessAttach, protocol.CapProcessJoin, protocol.CapFsConditional, protocol.CapFsAtomicWrites)
	box := sandbox.New(sandbox.Config{})
	defer box.Close()
	for _, tc := range []struct {
		name string
		cfg  execserver.Config
		more []string
	}{
		{"no sandbox", execserver.Config{}, nil},
		{"a sandbox that confines", execserver.Config{Sandbox: box, Confines: true}, []string{protocol.CapSandboxedFileStreaming, protocol.CapCapabilityDiscoverySandbox}},
		{"a sandbox that does not", execserver.Config{Sandbox: box}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, result := connectPeer(t, tc.cfg)
			var got []string
			for name, on := range result.EnvironmentInfo.Capabilities {
				if !on {
					t.Errorf("%s is announced as not there", name)
				}
				got = append(got, name)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(want), tc.more...)))
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	peer, result := connectPeer(t, execserver.Config{Version: "9.8.7", Cwd: dir, SessionGrace: -1, ProcessRetention: time.Second})
	var info protocol.EnvironmentInfo
	call(t, peer, protocol.MethodEnvironmentInfo, nil, &info)
	if diff := cmp.Diff(result.EnvironmentInfo, info); diff != "" {
		t.Errorf("initialize and environment/info differ:\n%s", diff)
	}
	if info.ExecutorVersion != "9.8.7" || info.Cwd != "file://"+dir || info.Limits.SessionGraceMs != 0 || info.Limits.ProcessRetentionMs != 1000 {
		t.Errorf("got %+v %+v", info, info.Limits)
	}
	var status protocol.EnvironmentStatusResult
	call(t, peer, protocol.MethodEnvironmentStatus, nil, &status)
	if status.Status != "ready" {
		t.Errorf("status %q", status.Status)
	}
}

// Discovery reads through the fs methods of its connection.
func TestDiscovery(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".codex-plugin/plugin.json", `{"mcpServers":"./mcp.json"}`)
	write("mcp.json", "{}")
	write("skills/one/SKILL.md", "---\nname: one\n---\n")
	write("skills/one/agents/openai.yaml", "a: b\n")
	write("a/b/c/d/e/f/SKILL.md", "as deep as it looks")
	write("a/b/c/d/e/f/g/SKILL.md", "too deep")
	if err := os.Symlink("skills", filepath.Join(dir, "link")); err != nil { // seen once
		t.Fatal(err)
	}
	if err := os.Symlink("one/SKILL.md", filepath.Join(dir, "skills", "SKILL.md")); err != nil { // not a file
		t.Fatal(err)
	}
	peer, _ := connectPeer(t, execserver.Config{})
	var got protocol.DiscoverRootsResult
	call(t, peer, protocol.MethodDiscoverRoots, &protocol.DiscoverRootsParams{Roots: []protocol.CapabilityRoot{
		{ID: "a", Path: "file://" + dir}, {ID: "b", Path: "file://" + dir + "/none"},
	}}, &got)
	if len(got.Roots) != 2 || got.Roots[0].Error != nil || got.Roots[1].Error == nil || !strings.Contains(*got.Roots[1].Error, "os error 2") {
		t.Fatalf("got %+v", got)
	}
	var skills []string
	for _, s := range got.Roots[0].Skills {
		skills = append(skills, strings.TrimPrefix(s.Instructions.Path, "file://"+dir))
	}
	if diff := cmp.Diff([]string{"/a/b/c/d/e/f/SKILL.md", "/link/one/SKILL.md"}, skills); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	if p := got.Roots[0].Plugin; p == nil || p.MCPConfig == nil || p.MCPConfig.Contents != "{}" || p.AppsConfig != nil {
		t.Errorf("plugin %+v", p)
	}
}
