package sandbox

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

func TestPolicyAccess(t *testing.T) {
	p := &Policy{}
	p.add("/", Read)
	p.add("/a/b", Write)
	p.add("/a/b/.git", Read)
	p.add("/a/b-c", Deny)
	p.add("/a/b/.git/x/y", Write)
	for path, want := range map[string]Access{
		"/": Read, "/a": Read, "/a/b": Write, "/a/b/": Write, "/a/b/c/d": Write, "/a/bc": Read,
		"/a/b-c": Deny, "/a/b-c/d": Deny, "/a/b-cd": Read, "/a/b/.git": Read, "/a/b/.git/x": Read,
		"/a/b/.git/x/y/z": Write, "/a/b/.gitx": Write,
	} {
		if got := p.Access(strings.TrimSuffix(path, "/") + map[bool]string{true: "/"}[path == "/"]); got != want {
			t.Errorf("Access(%q) = %d, want %d", path, got, want)
		}
	}
}

func TestPolicyWithoutRules(t *testing.T) {
	var p Policy
	if p.Access("/a") != Hidden || p.FullRead() || p.FullWrite() {
		t.Error("a policy without rules gives access")
	}
	p.Unconfined = true
	if p.Access("/a") != Write || !p.FullRead() || !p.FullWrite() {
		t.Error("an unconfined policy restricts access")
	}
}

func TestPolicyOfTwoEntriesForOnePath(t *testing.T) {
	for _, tt := range []struct {
		give []Access
		want Access
	}{
		{[]Access{Read, Write}, Write},
		{[]Access{Write, Read}, Write},
		{[]Access{Write, Deny}, Deny},
		{[]Access{Deny, Write}, Deny},
		{[]Access{Deny, Read}, Deny},
		{[]Access{Read, Read}, Read},
	} {
		var p Policy
		for _, a := range tt.give {
			p.add("/x", a)
		}
		if got := p.Access("/x"); got != tt.want || len(p.Rules) != 1 {
			t.Errorf("%v gives %d in %d rules, want %d", tt.give, got, len(p.Rules), tt.want)
		}
	}
}

func TestFullReadAndWrite(t *testing.T) {
	for _, tt := range []struct {
		name        string
		rules       []Rule
		globs       []string
		read, write bool
	}{
		{"nothing", nil, nil, false, false},
		{"root read", []Rule{{"/", Read}}, nil, true, false},
		{"root write", []Rule{{"/", Write}}, nil, true, true},
		{"root read, some write", []Rule{{"/", Read}, {"/a", Write}}, nil, true, false},
		{"root write, some read", []Rule{{"/", Write}, {"/a", Read}}, nil, true, false},
		{"root write, some denied", []Rule{{"/", Write}, {"/a", Deny}}, nil, false, false},
		{"root write, a glob", []Rule{{"/", Write}}, []string{"/a/*"}, false, false},
		{"root read, a glob", []Rule{{"/", Read}}, []string{"/a/*"}, false, false},
		{"all but the root", []Rule{{"/a", Write}}, nil, false, false},
	} {
		p := &Policy{Rules: tt.rules, Globs: tt.globs}
		if p.FullRead() != tt.read || p.FullWrite() != tt.write {
			t.Errorf("%s: read %v, write %v", tt.name, p.FullRead(), p.FullWrite())
		}
	}
}

func drawPath(rt *rapid.T, label string) string {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".git", "a-", "a b", "é"}), 0, 4).Draw(rt, label)
	return "/" + strings.Join(names, "/")
}

// The rules stay sorted with what is below a path right after it, and the most
// specific of them decides.
func TestPolicyAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p Policy
		model := map[string]Access{}
		for range rapid.IntRange(0, 12).Draw(rt, "rules") {
			at := drawPath(rt, "path")
			access := Access(rapid.IntRange(int(Read), int(Deny)).Draw(rt, "access"))
			p.add(at, access)
			model[at] = max(model[at], access)
		}
		if len(p.Rules) != len(model) {
			rt.Fatalf("%d rules for %d paths", len(p.Rules), len(model))
		}
		if !slices.IsSortedFunc(p.Rules, func(a, b Rule) int { return slashpath.Compare(a.Path, b.Path) }) {
			rt.Fatalf("not sorted: %v", p.Rules)
		}
		for i, r := range p.Rules {
			gap := false
			for _, s := range p.Rules[i+1:] {
				inside := slashpath.Within(s.Path, r.Path)
				if inside && gap {
					rt.Fatalf("%s is apart from %s: %v", s.Path, r.Path, p.Rules)
				}
				gap = gap || !inside
			}
		}
		at := drawPath(rt, "asked")
		want, longest := Hidden, -1
		for rule, access := range model {
			if (rule == "/" || at == rule || strings.HasPrefix(at, rule+"/")) && len(rule) > longest {
				want, longest = access, len(rule)
			}
		}
		if got := p.Access(at); got != want {
			rt.Fatalf("Access(%q) = %d, want %d of %v", at, got, want, p.Rules)
		}
	})
}
