package environment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/environment"
)

func TestCapabilities(t *testing.T) {
	for _, tc := range []struct {
		name       string
		methods    []string
		behaviours []string
		want       map[string]bool
	}{
		{"nothing", nil, nil, map[string]bool{}},
		{"a method", []string{"process/resize"}, nil, map[string]bool{protocol.CapProcessResize: true}},
		{"half of a pair", []string{"fs/watch"}, nil, map[string]bool{}},
		{"the pair", []string{"fs/watch", "fs/unwatch"}, nil, map[string]bool{protocol.CapFsWatch: true}},
		{"a method capability cannot be claimed", nil, []string{protocol.CapProcessResize}, map[string]bool{}},
		{"a behaviour without its method", nil, []string{protocol.CapHTTPHeaderEnvVars}, map[string]bool{}},
		{"a behaviour", []string{"http/request"}, []string{protocol.CapHTTPHeaderEnvVars}, map[string]bool{protocol.CapHTTPHeaderEnvVars: true}},
		{"a behaviour nobody vouches for", []string{"http/request"}, nil, map[string]bool{}},
		{"an unknown name", []string{"http/request"}, []string{"teleport"}, map[string]bool{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, environment.Capabilities(tc.methods, tc.behaviours...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
