package discovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

func userSkills(t *testing.T, m *memory, roots ...UserRoot) *protocol.DiscoverCapabilitiesResult {
	t.Helper()
	got, err := NewService(m, Config{UserRoots: roots}).discoverCapabilities(t.Context(), &protocol.DiscoverCapabilitiesParams{Cwd: "file:///"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// As codex 0.171.0 answered for the same trees.
func TestUserSkills(t *testing.T) {
	m := newMemory(map[string]string{
		"codex/.system/sys/SKILL.md": "---\nname: sys\ndescription: D\n---\n",
		"agents/one/SKILL.md":        "---\r\nname: one\r\ndescription: |\r\n  two\r\n  lines\r\nmetadata:\r\n  short-description: short\r\n---\r\nbody",
		"agents/one/agents/openai.yaml": "dependencies:\n  tools:\n    - type: env_var\n      value: X\n      description: d\n    - value: no type\n" +
			"policy:\n  allow_implicit_invocation: false\n",
	})
	got := userSkills(t, m, UserRoot{"c", "/codex"}, UserRoot{"none", "/none"}, UserRoot{"a", "/agents"})
	want := &protocol.DiscoverCapabilitiesResult{
		Plugins: []protocol.Empty{}, Warnings: []string{},
		Skills: []protocol.UserSkill{
			{
				Name: "sys", Description: "D", Path: "file:///codex/.system/sys/SKILL.md",
				DiscoveryRoot: protocol.DiscoveryRoot{ID: "c", Path: "file:///codex"},
			},
			{
				Name: "one", Description: "two lines", ShortDescription: pointer("short"), Path: "file:///agents/one/SKILL.md",
				DiscoveryRoot: protocol.DiscoveryRoot{ID: "a", Path: "file:///agents"},
				Dependencies:  &protocol.SkillDependencies{Tools: []protocol.SkillTool{{Type: "env_var", Value: "X", Description: pointer("d")}}},
				Policy:        &protocol.SkillPolicy{AllowImplicitInvocation: pointer(false), Products: []string{}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFrontMatter(t *testing.T) {
	for _, tc := range []struct {
		name, text  string
		skill, desc string // empty: not a skill
	}{
		{"plain", "---\nname: n\ndescription: d\n---\nbody", "n", "d"},
		{"nothing after it", "---\nname: n\ndescription: d\n---", "n", "d"},
		{"other types", "---\nname: 5\ndescription: true\n---\n", "5", "true"},
		{"quotes", "---\nname: \"q: x\"\ndescription: 'it''s'\n---\n", "q: x", "it's"},
		{"white space", "---\nname: 'a  b'\ndescription: \"a   b\\tc\"\n---\n", "a b", "a b c"},
		{"a colon without quotes", "---\nname: n\ndescription: use when: it's y\n---\n", "n", "use when: it's y"},
		{"no name", "---\ndescription: d\n---\n", "dir", "d"},
		{"blank name", "---\nname: '  '\ndescription: d\n---\n", "dir", "d"},
		{"long description", "---\nname: n\ndescription: " + strings.Repeat("d", 5000) + "\n---\n", "n", strings.Repeat("d", 5000)},
		{"name as long as may be", "---\nname: " + strings.Repeat("ä", 64) + "\ndescription: d\n---\n", strings.Repeat("ä", 64), "d"},
		{"long name", "---\nname: " + strings.Repeat("n", 65) + "\ndescription: d\n---\n", "", ""},
		{"no description", "---\nname: n\n---\n", "", ""},
		{"empty description", "---\nname: n\ndescription: ''\n---\n", "", ""},
		{"no front matter", "body\n", "", ""},
		{"empty file", "", "", ""},
		{"not closed", "---\nname: n\ndescription: d\n", "", ""},
		{"a blank line first", "\n---\nname: n\ndescription: d\n---\n", "", ""},
		{"bad YAML", "---\nname: [x\n---\n", "", ""},
		{"a list", "---\n- a\n---\n", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := userSkills(t, newMemory(map[string]string{"r/dir/SKILL.md": tc.text}), UserRoot{"r", "/r"})
			if tc.skill == "" {
				if len(got.Skills) != 0 || len(got.Warnings) != 1 || got.Warnings[0] != incomplete {
					t.Errorf("got %+v, want no skill and a warning", got)
				}
				return
			}
			if len(got.Skills) != 1 || got.Skills[0].Name != tc.skill || got.Skills[0].Description != tc.desc || len(got.Warnings) != 0 {
				t.Errorf("got %+v, want %q %q", got, tc.skill, tc.desc)
			}
		})
	}
}

func TestSkillMetadata(t *testing.T) {
	for _, tc := range []struct {
		name, yaml string
		want       protocol.UserSkill
	}{
		{"bad YAML", "a: [", protocol.UserSkill{}},
		{"nothing of use", "interface:\n  short_description: x\n", protocol.UserSkill{}},
		{"no tools", "dependencies:\n  tools: []\n", protocol.UserSkill{}},
		{"empty policy", "policy: {}\n", protocol.UserSkill{Policy: &protocol.SkillPolicy{Products: []string{}}}},
		{"products", "policy:\n  products: [a, b]\n", protocol.UserSkill{Policy: &protocol.SkillPolicy{Products: []string{"a", "b"}}}},
		{"a whole tool", "dependencies:\n  tools:\n    - {type: mcp, value: v, transport: t, command: c, url: u, oauth_callback_port: 5}\n", protocol.UserSkill{
			Dependencies: &protocol.SkillDependencies{Tools: []protocol.SkillTool{{
				Type: "mcp", Value: "v", Transport: pointer("t"), Command: pointer("c"), URL: pointer("u"), OAuthCallbackPort: pointer(uint64(5)),
			}}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got protocol.UserSkill
			readSkillMetadata(tc.yaml, &got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A few lines of YAML that stand for a billion tools are refused, not expanded.
func TestYAMLBomb(t *testing.T) {
	bomb := "a: &a [{type: t, value: v}]\n"
	for c := 'b'; c <= 'j'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 9) + "*" + p + "]\n"
	}
	var got protocol.UserSkill
	readSkillMetadata(bomb+"dependencies:\n  tools: *j\n", &got)
	if got.Dependencies != nil {
		t.Errorf("%d tools", len(got.Dependencies.Tools))
	}
	readSkillMetadata(bomb+"dependencies:\n  tools: *a\n", &got)
	if got.Dependencies == nil || len(got.Dependencies.Tools) != 1 {
		t.Errorf("an alias as people use it: %+v", got)
	}
}

func TestUserRoots(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	t.Setenv("CODEX_HOME", "")
	want := []UserRoot{{"codex-home-skills", "/home/u/.codex/skills"}, {"user-agent-skills", "/home/u/.agents/skills"}}
	if diff := cmp.Diff(want, userRoots()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	t.Setenv("CODEX_HOME", "/elsewhere")
	want[0].Path = "/elsewhere/skills"
	if diff := cmp.Diff(want, userRoots()); diff != "" {
		t.Errorf("CODEX_HOME (-want +got):\n%s", diff)
	}
	t.Setenv("HOME", "")
	if diff := cmp.Diff(want[:1], userRoots()); diff != "" {
		t.Errorf("no HOME (-want +got):\n%s", diff)
	}
}

func TestUserSkillsOdd(t *testing.T) {
	m := newMemory(map[string]string{"file": "", "bad/SKILL.md": "\xff"})
	m.denied = "/denied"
	for _, path := range []string{"/file", "/denied", "/bad"} {
		if got := userSkills(t, m, UserRoot{"r", path}); len(got.Skills) != 0 || len(got.Warnings) != 1 {
			t.Errorf("%s: %+v", path, got)
		}
	}
	_, err := NewService(m, Config{}).discoverCapabilities(t.Context(), &protocol.DiscoverCapabilitiesParams{Cwd: "nope"})
	if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeInvalidParams {
		t.Errorf("a cwd that is no URI: %v", err)
	}
}
