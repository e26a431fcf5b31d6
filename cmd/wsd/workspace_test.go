package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// The variable is as hosts write it; a flag wins over it.
func TestIgnoredNames(t *testing.T) {
	for _, tt := range []struct {
		env  string
		args []string
		want []string // nil for a usage error
	}{
		{"**/node_modules, **/.cache/,out", nil, []string{"node_modules", ".cache", "out"}},
		{"", nil, []string{}},
		{"**/a", []string{"--sync-ignore", "b"}, []string{"b"}},
		{"/secrets", nil, nil},
		{"**/*.log", nil, nil},
		{"!**/a", nil, nil},
		{"**/a/b", nil, nil},
	} {
		t.Setenv(envIgnore, tt.env)
		var o workspaceOptions
		cmd := &cobra.Command{}
		o.addFlags(cmd.Flags())
		if err := cmd.ParseFlags(append([]string{"--workspace", "."}, tt.args...)); err != nil {
			t.Fatal(err)
		}
		err := o.check(cmd, &serveOptions{})
		if tt.want == nil {
			if err == nil {
				t.Errorf("%q is taken as %q", tt.env, o.ignore)
			}
		} else if diff := cmp.Diff(tt.want, o.ignore); diff != "" || err != nil {
			t.Errorf("%q %q: %v, (-want +got):\n%s", tt.env, tt.args, err, diff)
		}
	}
}
