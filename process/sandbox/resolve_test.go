package sandbox

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// decode reads a sandbox object as it stands on the wire.
func decode(t *testing.T, text string) *protocol.Sandbox {
	t.Helper()
	s := new(protocol.Sandbox)
	if err := wire.Unmarshal([]byte(text), s); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return s
}

const (
	readOnly = `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"file:///srv/demo","workspaceRoots":["file:///srv/demo"],"windowsSandboxLevel":"disabled","windowsSandboxProxySettingsMode":"reconcile","useLegacyLandlock":false}`

	workspaceWrite = `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":".git"}},"access":"read","missing_path_behavior":"skip"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":".agents"}},"access":"read","missing_path_behavior":"skip"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":".codex"}},"access":"read","missing_path_behavior":"skip"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":".aws"}},"access":"read","missing_path_behavior":"skip"}]},"network":"restricted"},"cwd":"file:///srv/demo","workspaceRoots":["file:///srv/demo"],"windowsSandboxLevel":"disabled","windowsSandboxProxySettingsMode":"reconcile","useLegacyLandlock":false}`
)

// What the real client sends (exec-rpc.md, 5.2).
func TestResolveOfTheRealClient(t *testing.T) {
	in := Context{Cwd: "/elsewhere", TempDir: "/var/tmp/"}
	got, err := Resolve(decode(t, readOnly), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Policy{Rules: []Rule{{"/", Read}}}, got); diff != "" {
		t.Errorf("read-only (-want +got):\n%s", diff)
	}
	if !got.FullRead() || got.FullWrite() {
		t.Error("read-only is not to read all and write nothing")
	}
	got, err = Resolve(decode(t, workspaceWrite), in)
	if err != nil {
		t.Fatal(err)
	}
	want := &Policy{Rules: []Rule{
		{"/", Read},
		{"/srv/demo", Write},
		{"/srv/demo/.agents", Read},
		{"/srv/demo/.aws", Read},
		{"/srv/demo/.codex", Read},
		{"/srv/demo/.git", Read},
		{"/tmp", Write},
		{"/var/tmp", Write},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workspace-write (-want +got):\n%s", diff)
	}
}

// object is a sandbox object with the entries and further members.
func object(entries string, more ...string) string {
	return `{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[` + entries +
		`]}},"windowsSandboxLevel":"disabled"` + strings.Join(append([]string{""}, more...), ",") + `}`
}

const (
	cwd   = `"cwd":"file:///w/c"`
	roots = `"workspaceRoots":["file:///w","file:///v"]`
)

func specialEntry(access, value string) string {
	return `{"path":{"type":"special","value":{` + value + `}},"access":"` + access + `"}`
}

func pathURI(access, uri string) string {
	return `{"path":{"type":"path","path":"` + uri + `"},"access":"` + access + `"}`
}

func globEntry(access, pattern string) string {
	return `{"path":{"type":"glob_pattern","pattern":"` + pattern + `"},"access":"` + access + `"}`
}

func TestResolve(t *testing.T) {
	rootRead := specialEntry("read", `"kind":"root"`)
	rules := func(r ...Rule) *Policy { return &Policy{Rules: r} }
	for _, tt := range []struct {
		name, object string
		in           Context
		want         *Policy
	}{
		{"no entries", object(""), Context{}, &Policy{}},
		{"entries absent", `{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted"}},"windowsSandboxLevel":"disabled"}`, Context{}, &Policy{}},
		{"disabled", `{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}`, Context{}, &Policy{Unconfined: true, Network: true}},
		{"external", `{"permissions":{"type":"external","network":"restricted"},"windowsSandboxLevel":"disabled"}`, Context{}, &Policy{Unconfined: true}},
		{"external with network", `{"permissions":{"type":"external","network":"enabled"},"windowsSandboxLevel":"disabled"}`, Context{}, &Policy{Unconfined: true, Network: true}},
		{"unrestricted", `{"permissions":{"type":"managed","network":"enabled","file_system":{"type":"unrestricted"}},"windowsSandboxLevel":"disabled"}`, Context{}, &Policy{Unconfined: true, Network: true}},
		{"unrestricted without network", `{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"unrestricted"}},"windowsSandboxLevel":"disabled"}`, Context{}, &Policy{Unconfined: true}},
		{"legacy", object(rootRead, `"useLegacyLandlock":true`), Context{}, &Policy{Rules: []Rule{{"/", Read}}, Legacy: true}},
		{"override has no effect", object(rootRead, `"sandboxOverride":"bypassSandboxFirstAttempt"`), Context{}, rules(Rule{"/", Read})},
		{"paths", object(pathURI("write", "file:///a%20b/") + "," + pathURI("none", "file:///a%20b/c") + "," + pathURI("deny", "file:///d/../e")), Context{}, rules(Rule{"/a b", Write}, Rule{"/a b/c", Deny}, Rule{"/e", Deny})},
		{"bytes", object(pathURI("read", "file:///%FF")), Context{}, rules(Rule{"/\xff", Read})},
		{"root denied", object(specialEntry("deny", `"kind":"root"`) + "," + pathURI("read", "file:///a")), Context{}, rules(Rule{"/a", Read})},
		{"project roots", object(specialEntry("write", `"kind":"project_roots"`), cwd, roots), Context{}, rules(Rule{"/v", Write}, Rule{"/w", Write})},
		{"cwd is project roots", object(specialEntry("write", `"kind":"current_working_directory"`), cwd, roots), Context{}, rules(Rule{"/v", Write}, Rule{"/w", Write})},
		{"no roots", object(specialEntry("write", `"kind":"project_roots"`), cwd), Context{}, &Policy{}},
		{"subpath", object(specialEntry("read", `"kind":"project_roots","subpath":"./x//y/"`), cwd, roots), Context{}, rules(Rule{"/v/x/y", Read}, Rule{"/w/x/y", Read})},
		{"null subpath", object(specialEntry("read", `"kind":"root","subpath":null`)), Context{}, rules(Rule{"/", Read})},
		{"cwd of the context", object(specialEntry("write", `"kind":"project_roots"`), roots), Context{Cwd: "/x"}, rules(Rule{"/v", Write}, Rule{"/w", Write})},
		{"policy context", object(specialEntry("write", `"kind":"project_roots"`), cwd, roots, `"policyContext":{"cwd":"file:///p","workspaceRoots":["file:///p/r"]}`), Context{}, rules(Rule{"/p/r", Write})},
		{"policy context without cwd", object(globEntry("deny", "*.x"), cwd, `"policyContext":{}`), Context{}, &Policy{Globs: []string{"/w/c/*.x"}}},
		{"tmpdir of the environment", object(specialEntry("write", `"kind":"tmpdir"`)), Context{TempDir: "/t/"}, rules(Rule{"/t", Write})},
		{"tmpdir unset", object(specialEntry("write", `"kind":"tmpdir"`)), Context{}, &Policy{}},
		{"tmpdir relative", object(specialEntry("write", `"kind":"tmpdir"`)), Context{TempDir: "t"}, &Policy{}},
		{"tmpdir given", object(specialEntry("write", `"kind":"tmpdir"`), `"temporaryDirectories":["file:///t1","file:///t2"]`), Context{}, rules(Rule{"/t1", Write}, Rule{"/t2", Write})},
		{"slash tmp", object(specialEntry("write", `"kind":"slash_tmp"`)), Context{}, rules(Rule{"/tmp", Write})},
		{"minimal below a readable root", object(rootRead + "," + specialEntry("read", `"kind":"minimal"`)), Context{}, rules(Rule{"/", Read})},
		{"unknown grants nothing", object(rootRead + "," + specialEntry("write", `"kind":"unknown","path":":new"`)), Context{}, rules(Rule{"/", Read})},
		{"unknown to read", object(rootRead + "," + specialEntry("read", `"kind":"unknown"`)), Context{}, rules(Rule{"/", Read})},
		{"globs", object(globEntry("deny", "**/*.env")+","+globEntry("none", "/a/*.k")+","+globEntry("deny", "~/s")+","+globEntry("deny", "**/*.env"), `"cwd":"file:///w/[c]"`, `"userHomeDir":"file:///h"`), Context{}, &Policy{Globs: []string{"/a/*.k", "/h/s", `/w/\[c\]/**/*.env`}}},
		{"glob of a tree", object(globEntry("deny", "/a/secrets/**")), Context{}, &Policy{Globs: []string{"/a/secrets"}}},
		{"missing path behaviour", object(`{"path":{"type":"path","path":"file:///a"},"access":"read","missing_path_behavior":"skip"}`), Context{}, rules(Rule{"/a", Read})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Resolve(decode(t, tt.object), tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveGlobDepth(t *testing.T) {
	s := decode(t, object(globEntry("deny", "/a/*")))
	for give, want := range map[uint64]int{1: 1, 7: 7, 1 << 40: MaxGlobDepth} {
		s.Permissions.FileSystem.GlobScanMaxDepth = &give
		p, err := Resolve(s, Context{})
		if err != nil || p.GlobDepth != want {
			t.Errorf("depth %d gives %v, %v", give, p, err)
		}
	}
}

func TestResolveMinimal(t *testing.T) {
	p, err := Resolve(decode(t, object(specialEntry("read", `"kind":"minimal"`)+","+pathURI("write", "file:///usr/local")+","+
		pathURI("deny", "file:///sbin"))), Context{})
	if err != nil || !p.Minimal {
		t.Fatal(p, err)
	}
	for path, want := range map[string]Access{
		"/usr/bin/env": Read, "/usr/local/x": Write, "/sbin/init": Deny, "/etc/passwd": Read, "/home": Hidden,
		"/": Hidden, "/var": Hidden,
	} {
		if got := p.Access(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	// Writing what is minimal is not what the wire grants by it.
	p, err = Resolve(decode(t, object(specialEntry("write", `"kind":"minimal"`))), Context{})
	if err != nil || p.Access("/usr") != Read {
		t.Errorf("minimal to write: %v, %v", p, err)
	}
}

func TestResolveRefuses(t *testing.T) {
	managed := func(fs string) string {
		return `{"permissions":{"type":"managed","network":"restricted","file_system":` + fs + `},"windowsSandboxLevel":"disabled"}`
	}
	rootWrite := specialEntry("write", `"kind":"root"`)
	for _, tt := range []struct{ name, object, want string }{
		{"type", `{"permissions":{"type":"zz"},"windowsSandboxLevel":"disabled"}`, "unknown variant `zz`, expected one of `managed`, `disabled`, `external`"},
		{"no file system", `{"permissions":{"type":"managed","network":"restricted"},"windowsSandboxLevel":"disabled"}`, "missing field `file_system`"},
		{"no network", `{"permissions":{"type":"managed","file_system":{"type":"unrestricted"}},"windowsSandboxLevel":"disabled"}`, "missing field `network`"},
		{"external without network", `{"permissions":{"type":"external"},"windowsSandboxLevel":"disabled"}`, "missing field `network`"},
		{"network", `{"permissions":{"type":"external","network":"zz"},"windowsSandboxLevel":"disabled"}`, "unknown variant `zz`, expected `restricted` or `enabled`"},
		{"file system", managed(`{"type":"zz"}`), "unknown variant `zz`, expected `restricted` or `unrestricted`"},
		{"level", object("", `"x":1`)[:len(object("", `"x":1`))-1] + `,"windowsSandboxProxySettingsMode":"zz"}`, "unknown variant `zz`, expected `reconcile` or `preserve`"},
		{"override", object("", `"sandboxOverride":"zz"`), "unknown variant `zz`, expected one of `noOverride`"},
		{"windows level", strings.Replace(object(""), `"disabled"`, `"zz"`, 1), "unknown variant `zz`, expected one of `disabled`"},
		{"access", object(specialEntry("zz", `"kind":"root"`)), "unknown variant `zz`, expected one of `read`, `write`, `deny`, `none`"},
		{"missing path behaviour", object(`{"path":{"type":"path","path":"file:///a"},"access":"read","missing_path_behavior":"zz"}`), "unknown variant `zz`, expected `skip`"},
		{"path type", object(`{"path":{"type":"zz"},"access":"read"}`), "unknown variant `zz`, expected one of `path`, `glob_pattern`, `special`"},
		{"kind", object(specialEntry("read", `"kind":"zz"`)), "unknown variant `zz`, expected one of `root`"},
		{"path missing", object(`{"path":{"type":"path"},"access":"read"}`), "missing field `path`"},
		{"pattern missing", object(`{"path":{"type":"glob_pattern"},"access":"deny"}`), "missing field `pattern`"},
		{"value missing", object(`{"path":{"type":"special"},"access":"deny"}`), "missing field `value`"},
		{"relative path", object(pathURI("read", "a/b")), "invalid URI: relative URL without a base"},
		{"roots without cwd", object(specialEntry("write", `"kind":"project_roots"`), roots), "file system sandbox context with dynamic permissions requires cwd"},
		{"glob without cwd", object(globEntry("deny", "*.x")), "file system sandbox context with dynamic permissions requires cwd"},
		{"glob to read", object(globEntry("read", "/a/*")), "can only deny"},
		{"glob to write", object(globEntry("write", "/a/*")), "can only deny"},
		{"glob of all", object(globEntry("deny", "/**")), "must not deny the whole disk"},
		{"glob upwards", object(globEntry("deny", "/a/../*")), "must not contain"},
		{"bad glob", object(globEntry("deny", "/a/[")), "invalid glob pattern"},
		{"glob at home", object(globEntry("deny", "~/*"), cwd), "requires userHomeDir"},
		{"no glob depth", managed(`{"type":"restricted","glob_scan_max_depth":0}`), "must not be 0"},
		{"subpath upwards", object(specialEntry("read", `"kind":"project_roots","subpath":"a/../../b"`), cwd, roots), "must stay below"},
		{"subpath absolute", object(specialEntry("read", `"kind":"project_roots","subpath":"/a"`), cwd, roots), "must stay below"},
		{"subpath of the root", object(specialEntry("write", `"kind":"root","subpath":"a"`)), "takes no subpath"},
		{"subpath of /tmp", object(specialEntry("write", `"kind":"slash_tmp","subpath":"a"`)), "takes no subpath"},
		{"minimal denied", object(specialEntry("deny", `"kind":"minimal"`)), "cannot be denied"},
		{"unknown denied", object(specialEntry("deny", `"kind":"unknown"`)), "restricts a special path of unknown kind"},
		{"unknown read-only", object(rootWrite + "," + specialEntry("read", `"kind":"unknown"`)), "restricts a special path of unknown kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Resolve(decode(t, tt.object), Context{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %+v, %v; want an error with %q", p, err, tt.want)
			}
			for _, answer := range []error{processError(err), fileError(err)} {
				failure, ok := errors.AsType[*protocol.Error](answer)
				if !ok || failure.Code != protocol.CodeInvalidParams {
					t.Errorf("answered with %#v", answer)
				}
			}
		})
	}
}

// Objects that name paths of another system are answered differently by process/start
// and fs/* (exec-rpc.md, 5.1 and calibration).
func TestResolveForeignPaths(t *testing.T) {
	root := specialEntry("read", `"kind":"root"`)
	for _, tt := range []struct{ name, object, process, file string }{
		{
			"path", object(pathURI("write", "file:///C:/x")),
			"failed to prepare process sandbox: invalid sandbox permission path: 'file:///C:/x' is invalid on",
			"invalid sandbox permission path URI: 'file:///C:/x' is invalid on",
		},
		{
			"cwd", object(root, `"cwd":"file:///C:/x"`),
			"failed to prepare process sandbox: invalid sandbox policy cwd: 'file:///C:/x' is invalid on",
			"'file:///C:/x' is invalid on",
		},
		{
			"root", object(root, `"workspaceRoots":["file:///C:/x"]`),
			"failed to prepare process sandbox: invalid sandbox workspace root: 'file:///C:/x' is invalid on",
			"invalid sandbox workspace root: 'file:///C:/x' is invalid on",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Resolve(decode(t, tt.object), Context{})
			failure, ok := errors.AsType[*protocol.Error](processError(err))
			if !ok || failure.Code != protocol.CodeInvalidParams || !strings.HasPrefix(failure.Message, tt.process) ||
				failure.Data != (protocol.SpawnErrorData{Kind: "sandboxPreparation"}) {
				t.Errorf("process/start: %#v", processError(err))
			}
			failure, ok = errors.AsType[*protocol.Error](fileError(err))
			if !ok || failure.Code != protocol.CodeInvalidRequest || !strings.HasPrefix(failure.Message, tt.file) {
				t.Errorf("fs: %#v", fileError(err))
			}
		})
	}
}

func TestResolveMXC(t *testing.T) {
	_, err := Resolve(decode(t, strings.Replace(object(""), `"disabled"`, `"mxc"`, 1)), Context{})
	failure, ok := errors.AsType[*protocol.Error](processError(err))
	if !ok || failure.Code != protocol.CodeInvalidParams || failure.Data != (protocol.SpawnErrorData{Kind: protocol.KindSandboxUnavailable}) ||
		!strings.Contains(failure.Message, "native MXC is unavailable on this executor") {
		t.Errorf("%#v", processError(err))
	}
}

// Whatever a client sends is resolved or refused, and never gives more than the
// entries' own words do.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{readOnly, workspaceWrite, object(globEntry("deny", "**/*.env"), cwd), object(specialEntry("read", `"kind":"minimal"`))} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := new(protocol.Sandbox)
		if !json.Valid(text) || wire.Unmarshal(text, s) != nil {
			return
		}
		p, err := Resolve(s, Context{Cwd: "/c", TempDir: "/t"})
		if err != nil {
			return
		}
		for _, r := range p.Rules {
			if !strings.HasPrefix(r.Path, "/") || strings.Contains(r.Path, "//") || strings.ContainsRune(r.Path, 0) {
				t.Errorf("rule for %q", r.Path)
			}
		}
		grants := false
		if fs := s.Permissions.FileSystem; fs != nil {
			for _, e := range fs.Entries {
				grants = grants || e.Access == protocol.AccessWrite
			}
			grants = grants || fs.Type == protocol.FileSystemUnrestricted
		}
		if s.Permissions.Type != protocol.PermissionsManaged {
			grants = true
		}
		for _, r := range p.Rules {
			if r.Access == Write && !grants {
				t.Errorf("%s can be written though no entry says so", r.Path)
			}
		}
	})
}
