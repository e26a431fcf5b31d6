package process

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

func TestChildEnv(t *testing.T) {
	server := []string{
		"HOME=/h", "PATH=/bin", "LC_ALL=C", "EXTRA=1", "API_KEY=k", "monkey_x=m", "My_Secret=s", "GH_TOKEN=t",
		"CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE=1", "WSD_TOKEN=t", "WSD_WS_PASSWORD=p", "WSD_URL=u", "DUP=a", "DUP=b", "broken", "=x",
	}
	policy := func(inherit string, change func(*protocol.EnvPolicy)) *protocol.EnvPolicy {
		p := &protocol.EnvPolicy{Inherit: inherit}
		if change != nil {
			change(p)
		}
		return p
	}
	for _, tt := range []struct {
		name    string
		policy  *protocol.EnvPolicy
		request map[string]string
		want    []string
	}{
		{"no policy", nil, map[string]string{"B": "2", "A": "1"}, []string{"A=1", "B=2"}},
		{"no policy still removes the switch", nil, map[string]string{exitOnStdinClose: "1", "A": "1"}, []string{"A=1"}},
		{"none", policy("none", nil), map[string]string{"A": "1"}, []string{"A=1"}},
		{"core", policy("core", nil), nil, []string{"HOME=/h", "LC_ALL=C", "PATH=/bin"}},
		{"all", policy("all", nil), nil, []string{"DUP=b", "EXTRA=1", "HOME=/h", "LC_ALL=C", "PATH=/bin", "WSD_URL=u"}},
		{
			"all without default excludes", policy("all", func(p *protocol.EnvPolicy) { p.IgnoreDefaultExcludes = true }), nil,
			[]string{"API_KEY=k", "DUP=b", "EXTRA=1", "GH_TOKEN=t", "HOME=/h", "LC_ALL=C", "My_Secret=s", "PATH=/bin", "WSD_URL=u", "monkey_x=m"},
		},
		{
			"exclude", policy("all", func(p *protocol.EnvPolicy) { p.Exclude = []string{"h*", "?up", "extra", "LC_*", "WSD*"} }), nil,
			[]string{"PATH=/bin"},
		},
		{
			"set brings an excluded name back", policy("core", func(p *protocol.EnvPolicy) {
				p.Exclude, p.Set = []string{"*"}, map[string]string{"HOME": "/other", "MY_KEY": "v"}
			}), nil,
			[]string{"HOME=/other", "MY_KEY=v"},
		},
		{
			"includeOnly filters set, not env", policy("all", func(p *protocol.EnvPolicy) {
				p.Set, p.IncludeOnly = map[string]string{"SETME": "1", "PATHS": "2"}, []string{"path*"}
			}),
			map[string]string{"OWN": "3"},
			[]string{"OWN=3", "PATH=/bin", "PATHS=2"},
		},
		{
			"env is never filtered", policy("none", func(p *protocol.EnvPolicy) { p.Exclude = []string{"*"} }),
			map[string]string{"API_KEY": "1", exitOnStdinClose: "1"},
			[]string{"API_KEY=1"},
		},
		{
			"set does not bring the switch back", policy("none", func(p *protocol.EnvPolicy) { p.Set = map[string]string{exitOnStdinClose: "1"} }), nil,
			[]string{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := childEnv(tt.policy, tt.request, server)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChildEnvRefused(t *testing.T) {
	for name, policy := range map[string]*protocol.EnvPolicy{
		"unknown inherit": {Inherit: "some"},
		"= in set":        {Inherit: "none", Set: map[string]string{"A=B": ""}},
		"NUL in set":      {Inherit: "none", Set: map[string]string{"A": "\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := childEnv(policy, nil, nil)
			if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeInvalidParams {
				t.Errorf("got %q, %v", env, err)
			}
		})
	}
}

func TestMatchGlob(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*KEY*", "monkey_x", true},
		{"*KEY*", "KE_Y", false},
		{"a?c", "ABC", true},
		{"a?c", "ac", false},
		{"?", "é", true},
		{"É*", "état", true},
		{"a*b*c", "axxbyybzzc", true},
		{"a*b*c", "axxbyybzz", false},
		{"**a", "bba", true},
		{"[a]", "a", false},
		{"[a]", "[a]", true},
		{"PATH", "PATHS", false},
	} {
		if got := matchGlob(tt.glob, tt.name); got != tt.want {
			t.Errorf("matchGlob(%q, %q) = %v", tt.glob, tt.name, got)
		}
	}
}

// FuzzMatchGlob compares the matcher with a plain recursive one.
func FuzzMatchGlob(f *testing.F) {
	f.Add("*KEY*", "MONKEY")
	f.Add("a?*b", "Axyzb")
	f.Add("***", "")
	f.Add("?*?", "é\xff")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 12 || len(name) > 24 {
			return // the plain one is exponential
		}
		if got, want := matchGlob(glob, name), matchPlainly(fold(glob), fold(name)); got != want {
			t.Errorf("matchGlob(%q, %q) = %v", glob, name, got)
		}
	})
}

func matchPlainly(glob, name []rune) bool {
	switch {
	case len(glob) == 0:
		return len(name) == 0
	case glob[0] == '*':
		return matchPlainly(glob[1:], name) || len(name) > 0 && matchPlainly(glob, name[1:])
	default:
		return len(name) > 0 && (glob[0] == '?' || glob[0] == name[0]) && matchPlainly(glob[1:], name[1:])
	}
}

// FuzzChildEnv checks what must hold whatever the policy: the request's variables are
// there, excluded ones are not, names are unique and the list can be given to exec.
func FuzzChildEnv(f *testing.F) {
	f.Add("all", true, "*key*,HOME", "A=1,B=2", "", "PATH=/bin", "HOME=/h,API_KEY=k")
	f.Add("core", false, "", "HOME=", "h*", "", "HOME=/h")
	f.Add("none", false, "*", "", "?", "=x", "\x00=")
	f.Fuzz(func(t *testing.T, inherit string, ignore bool, exclude, set, only, request, server string) {
		policy := &protocol.EnvPolicy{
			Inherit: inherit, IgnoreDefaultExcludes: ignore,
			Exclude: list(exclude), Set: vars(set), IncludeOnly: list(only),
		}
		own := vars(request)
		env, err := childEnv(policy, own, list(server))
		if err != nil {
			return
		}
		names := make(map[string]string)
		for _, entry := range env {
			name, value, ok := strings.Cut(entry, "=")
			if !ok || name == "" || strings.ContainsRune(entry, 0) {
				t.Fatalf("entry %q cannot be given to exec", entry)
			}
			if _, dup := names[name]; dup {
				t.Fatalf("%s is there twice", name)
			}
			names[name] = value
		}
		if _, ok := names[exitOnStdinClose]; ok {
			t.Error("the switch is there")
		}
		for name, value := range own {
			if got, ok := names[name]; name != exitOnStdinClose && (!ok || got != value) {
				t.Errorf("the request's %s is %q, not %q", name, got, value)
			}
		}
		for name := range names {
			_, isOwn := own[name]
			_, isSet := policy.Set[name]
			switch {
			case isOwn:
			case matchesAny(policy.Exclude, name) && !isSet:
				t.Errorf("%s is excluded", name)
			case len(policy.IncludeOnly) > 0 && !matchesAny(policy.IncludeOnly, name):
				t.Errorf("%s is not included", name)
			case !isSet && !ignore && matchesAny(secretGlobs, name):
				t.Errorf("%s looks like a secret", name)
			}
		}
		if !slices.IsSorted(env) {
			t.Error("not sorted")
		}
		again, err := childEnv(policy, own, list(server))
		if err != nil || !slices.Equal(again, env) {
			t.Errorf("a second call differs: %q, %v", again, err)
		}
	})
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func vars(text string) map[string]string {
	out := make(map[string]string)
	for _, entry := range list(text) {
		name, value, _ := strings.Cut(entry, "=")
		out[name] = value
	}
	return out
}
