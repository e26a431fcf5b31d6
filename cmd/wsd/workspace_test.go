package main

import (
	"strings"
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
			if err == nil || !strings.Contains(err.Error(), "for $"+envIgnore) {
				t.Errorf("%q is taken as %q, %v", tt.env, o.ignore, err)
			}
		} else if diff := cmp.Diff(tt.want, o.ignore); diff != "" || err != nil {
			t.Errorf("%q %q: %v, (-want +got):\n%s", tt.env, tt.args, err, diff)
		}
	}
}
