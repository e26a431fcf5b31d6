package main

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBuildInfo(t *testing.T) {
	recorded := &debug.BuildInfo{Main: debug.Module{Version: "v0.3.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"},
		{Key: "vcs.time", Value: "2030-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
		{Key: "CGO_ENABLED", Value: "1"},
	}}
	for _, tc := range []struct {
		name   string
		linked buildInfo
		want   buildInfo
	}{
		{"go install", buildInfo{}, buildInfo{Version: "v0.3.0", Commit: "0123456789abcdef0123", Date: "2030-01-02T03:04:05Z", Dirty: true, CGO: true}},
		{"make build", buildInfo{Version: "0.4.0", Commit: "feed", Date: "2031"}, buildInfo{Version: "0.4.0", Commit: "feed", Date: "2031", CGO: true}},
		{"make build of a clean tree without a tag", buildInfo{Commit: "feed"}, buildInfo{Version: "v0.3.0", Commit: "feed", CGO: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.linked
			got.fill(recorded)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildInfoLine(t *testing.T) {
	b := buildInfo{Version: "1", Commit: "0123456789abcdef", Date: "2030", Dirty: true, Go: "go1", Platform: "a/b"}
	if got, want := b.line(), "wsd 1, built from 0123456789ab with local changes of 2030 with go1 for a/b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (buildInfo{Version: "devel", Go: "go1", Platform: "a/b"}).line(), "wsd devel, built from an unknown commit with go1 for a/b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
