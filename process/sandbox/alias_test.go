package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSH3RulesByAnAlias(t *testing.T) {
	p := &Policy{Globs: []string{"/**/*.pem", "/workspace/**/*.env", "/workspaces/x*"}}
	for path, access := range map[string]Access{
		"/": Read, "/workspace": Write, "/workspace/.git": Read, "/workspace/a/b": Deny, "/home/[p]/.git": Deny, "/workspaces": Write,
	} {
		p.add(path, access)
	}
	p.addAlias(Alias{Name: "/workspace", Path: "/home/[p]"})
	want := &Policy{
		Rules: []Rule{
			{"/", Read},
			{"/home/[p]", Write},
			{"/home/[p]/.git", Deny},
			{"/home/[p]/a/b", Deny},
			{"/workspace", Write},
			{"/workspace/.git", Read},
			{"/workspace/a/b", Deny},
			{"/workspaces", Write},
		},
		Globs: []string{"/**/*.pem", `/home/\[p\]/**/*.env`, "/workspace/**/*.env", "/workspaces/x*"},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.addAlias(Alias{})
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("without an alias: -want +got:\n%s", diff)
	}
}
