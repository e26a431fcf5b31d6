package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

// discover looks into one root.
func discover(t *testing.T, m *memory, root string) protocol.DiscoveredRoot {
	t.Helper()
	got, err := NewService(m, Config{}).discoverRoots(t.Context(), &protocol.DiscoverRootsParams{Roots: []protocol.CapabilityRoot{{ID: "r", Path: root}}})
	if err != nil {
		t.Fatal(err)
	}
	return got.Roots[0]
}

func text(uri, contents string) protocol.CapabilityFile {
	return protocol.CapabilityFile{Path: uri, Contents: contents}
}

func pointer[T any](v T) *T { return &v }

// As codex 0.171.0 answered for the same tree.
func TestPluginRoot(t *testing.T) {
	m := newMemory(map[string]string{
		"p q/.codex-plugin/plugin.json":                `{"name":"demo"}`,
		"p q/.claude-plugin/plugin.json":               `{"name":"second choice"}`,
		"p q/.mcp.json":                                `{"mcpServers":{}}`,
		"p q/.app.json":                                `{"apps":{}}`,
		"p q/skills/one/SKILL.md":                      "---\nname: one\n---\n",
		"p q/skills/one/agents/openai.yaml":            "interface: {}\n",
		"p q/skills/deep/er/SKILL.md":                  "two",
		"p q/skills/deep/x/.cursor-plugin/plugin.json": "{}",
		"p q/skills/none/agents/openai.yaml":           "alone",
		"p q/plugin.json":                              "not here",
	})
	got := discover(t, m, "file:///p%20q/")
	manifest := text("file:///p%20q/.codex-plugin/plugin.json", `{"name":"demo"}`)
	want := protocol.DiscoveredRoot{
		ID: "r", Path: "file:///p%20q/",
		Plugin: &protocol.DiscoveredPlugin{
			Manifest:   manifest,
			MCPConfig:  pointer(text("file:///p%20q/.mcp.json", `{"mcpServers":{}}`)),
			AppsConfig: pointer(text("file:///p%20q/.app.json", `{"apps":{}}`)),
		},
		Skills: []protocol.DiscoveredSkill{
			{Instructions: text("file:///p%20q/skills/deep/er/SKILL.md", "two")},
			{
				Instructions: text("file:///p%20q/skills/one/SKILL.md", "---\nname: one\n---\n"),
				Metadata:     pointer(text("file:///p%20q/skills/one/agents/openai.yaml", "interface: {}\n")),
			},
		},
		NamespaceManifests: []protocol.CapabilityFile{manifest, text("file:///p%20q/skills/deep/x/.cursor-plugin/plugin.json", "{}")},
		Warnings:           []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, n := range m.reads {
		if n > 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
}

func TestNoPlugin(t *testing.T) {
	got := discover(t, newMemory(map[string]string{"r/SKILL.md": "s", "r/.mcp.json": "{}", "r/.hidden/SKILL.md": "h"}), "file:///r")
	want := protocol.DiscoveredRoot{
		ID: "r", Path: "file:///r",
		Skills: []protocol.DiscoveredSkill{
			{Instructions: text("file:///r/.hidden/SKILL.md", "h")}, {Instructions: text("file:///r/SKILL.md", "s")},
		},
		NamespaceManifests: []protocol.CapabilityFile{}, Warnings: []string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestManifestReferences(t *testing.T) {
	for _, tc := range []struct {
		name, manifest string
		mcp, apps      string // the files found
		warning        string
	}{
		{"usual names", `{}`, ".mcp.json", ".app.json", ""},
		{"not JSON", `{bad`, ".mcp.json", ".app.json", ""},
		{"not an object", `[]`, ".mcp.json", ".app.json", ""},
		{"null", `{"mcpServers":null,"apps":null}`, ".mcp.json", ".app.json", ""},
		{"named", `{"mcpServers":"./x y/m.json","apps":"././a.json"}`, "x%20y/m.json", "a.json", ""},
		{"doubled slash", `{"apps":"./x y//a.json"}`, ".mcp.json", "x%20y/a.json", ""},
		{"named and not there", `{"mcpServers":"./none.json"}`, "", ".app.json", ""},
		{"servers inline", `{"mcpServers":{"a":{}},"apps":{"b":{}}}`, "", ".app.json", ""},
		{"other types", `{"mcpServers":["x"],"apps":3}`, ".mcp.json", ".app.json", ""},
		{"no ./", `{"mcpServers":"a.json"}`, ".mcp.json", ".app.json", "ignoring mcpServers in file:///r/.codex-plugin/plugin.json: path must start with `./`"},
		{"absolute", `{"apps":"/etc/passwd"}`, ".mcp.json", ".app.json", "ignoring apps in file:///r/.codex-plugin/plugin.json: path must start with `./`"},
		{"upwards", `{"apps":"./x y/../a.json"}`, ".mcp.json", ".app.json", "ignoring apps in file:///r/.codex-plugin/plugin.json: path must remain below the capability root"},
		{"the root", `{"mcpServers":"./"}`, ".mcp.json", ".app.json", "ignoring mcpServers in file:///r/.codex-plugin/plugin.json: path must remain below the capability root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := discover(t, newMemory(map[string]string{
				"r/.codex-plugin/plugin.json": tc.manifest, "r/.mcp.json": "m", "r/.app.json": "a", "r/a.json": "a", "r/x y/m.json": "m", "r/x y/a.json": "a",
			}), "file:///r")
			path := func(f *protocol.CapabilityFile) string {
				if f == nil {
					return ""
				}
				return strings.TrimPrefix(f.Path, "file:///r/")
			}
			if mcp, apps := path(got.Plugin.MCPConfig), path(got.Plugin.AppsConfig); mcp != tc.mcp || apps != tc.apps {
				t.Errorf("found %q and %q, want %q and %q", mcp, apps, tc.mcp, tc.apps)
			}
			if w := strings.Join(got.Warnings, "|"); w != tc.warning {
				t.Errorf("warnings %q, want %q", w, tc.warning)
			}
		})
	}
}

func TestBadRoots(t *testing.T) {
	m := newMemory(map[string]string{"r/file": ""})
	m.denied = "/denied"
	for _, tc := range []struct{ path, want string }{
		{"file:///none", "failed to inspect capability root file:///none: No such file or directory (os error 2)"},
		{"file:///denied", "failed to inspect capability root file:///denied: Permission denied (os error 13)"},
		{"file:///r/file", "capability root file:///r/file is not a directory"},
		{"file:///C:/x", "failed to inspect capability root file:///C:/x: 'file:///C:/x' is invalid on 'linux'"},
	} {
		got := discover(t, m, tc.path)
		if got.Error == nil || *got.Error != tc.want || got.Path != tc.path || got.Skills == nil {
			t.Errorf("%s: %+v, want the error %q", tc.path, got, tc.want)
		}
	}
	_, err := NewService(m, Config{}).discoverRoots(t.Context(), &protocol.DiscoverRootsParams{Roots: []protocol.CapabilityRoot{{Path: "nope"}}})
	if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeInvalidParams {
		t.Errorf("not a URI: %v", err)
	}
}

func TestRootLimit(t *testing.T) {
	p := &protocol.DiscoverRootsParams{Roots: make([]protocol.CapabilityRoot, protocol.MaxCapabilityRoots+1)}
	for i := range p.Roots {
		p.Roots[i] = protocol.CapabilityRoot{ID: fmt.Sprint(i), Path: "file:///none"}
	}
	s := NewService(newMemory(nil), Config{})
	_, err := s.discoverRoots(t.Context(), p)
	if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeInvalidRequest {
		t.Errorf("one root too many: %v", err)
	}
	p.Roots = p.Roots[1:]
	got, err := s.discoverRoots(t.Context(), p)
	if err != nil || len(got.Roots) != protocol.MaxCapabilityRoots || got.Roots[0].ID != "1" {
		t.Errorf("as many as may be: %v", err)
	}
}

func TestSizeLimits(t *testing.T) {
	files := map[string]string{
		"big/a/SKILL.md":                      strings.Repeat("x", protocol.MaxCapabilityFileBytes),
		"big/b/SKILL.md":                      strings.Repeat("x", protocol.MaxCapabilityFileBytes+1),
		"bad/SKILL.md":                        "ok\xff",
		"fallback/.codex-plugin/plugin.json":  "\xff",
		"fallback/.claude-plugin/plugin.json": "{}",
	}
	for i := range 20 {
		files[fmt.Sprintf("sum/%02d/SKILL.md", i)] = strings.Repeat("x", protocol.MaxCapabilityFileBytes)
	}
	m := newMemory(files)
	for _, tc := range []struct {
		root    string
		skills  int
		warning string
	}{
		{"big", 1, "capability file file:///big/b/SKILL.md exceeds the 1048576-byte limit"},
		{"bad", 0, "capability file file:///bad/SKILL.md is not UTF-8: invalid utf-8 sequence at index 2"},
		{"sum", 16, "capability root bundle exceeds the 16777216-byte limit"},
		{"fallback", 0, "capability file file:///fallback/.codex-plugin/plugin.json is not UTF-8: invalid utf-8 sequence at index 0"},
	} {
		got := discover(t, m, "file:///"+tc.root)
		if len(got.Skills) != tc.skills || strings.Join(got.Warnings, "|") != tc.warning || got.Error != nil {
			t.Errorf("%s: %d skills, %q; want %d, %q", tc.root, len(got.Skills), got.Warnings, tc.skills, tc.warning)
		}
	}
	if got := discover(t, m, "file:///fallback"); got.Plugin == nil || !strings.Contains(got.Plugin.Manifest.Path, ".claude-plugin") {
		t.Errorf("a manifest that cannot be read: %+v, want the next kind", got.Plugin)
	}
	sums := &protocol.DiscoverRootsParams{}
	for range 4 {
		sums.Roots = append(sums.Roots, protocol.CapabilityRoot{Path: "file:///sum"})
	}
	got, err := NewService(m, Config{}).discoverRoots(t.Context(), sums)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, root := range got.Roots {
		for _, skill := range root.Skills {
			total += len(skill.Instructions.Contents)
		}
	}
	if total != protocol.MaxCapabilityAnswerBytes || !strings.Contains(got.Roots[3].Warnings[0], "limit of an answer") {
		t.Errorf("an answer of %d bytes, %q", total, got.Roots[3].Warnings)
	}
}

func TestTruncated(t *testing.T) {
	m := newMemory(map[string]string{"r/SKILL.md": "s"})
	m.truncate = true
	if got := discover(t, m, "file:///r"); len(got.Skills) != 1 || strings.Join(got.Warnings, "|") != "capability scan reached its traversal limit (root: file:///r)" {
		t.Errorf("got %+v", got)
	}
}

// Everything is read under the sandbox of its root.
func TestSandbox(t *testing.T) {
	m := newMemory(map[string]string{"r/SKILL.md": "s", "r/.codex-plugin/plugin.json": "{}"})
	box := &protocol.Sandbox{}
	_, err := NewService(m, Config{}).discoverRoots(t.Context(), &protocol.DiscoverRootsParams{Roots: []protocol.CapabilityRoot{{Path: "file:///r", Sandbox: box}}})
	if err != nil || len(m.sandboxes) != 1 || !m.sandboxes[box] {
		t.Errorf("sandboxes %v, %v", m.sandboxes, err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewService(newMemory(nil), Config{}).discoverRoots(ctx, &protocol.DiscoverRootsParams{Roots: []protocol.CapabilityRoot{{Path: "file:///none"}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
