package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/server/workspace"
)

// F5: the flags of wsd sync bound the garbage of its state, as those of a server do.
func TestF5GarbageFlagsOfSync(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want workspace.Garbage
	}{
		{nil, workspace.Garbage{Bytes: workspace.DefaultGarbageBytes, Share: workspace.DefaultGarbageShare}},
		{[]string{"--garbage-max-bytes", "3M", "--garbage-max-share", "7"}, workspace.Garbage{Bytes: 3 << 20, Share: 7}},
		{[]string{"--garbage-max-bytes", "0", "--garbage-max-share", "0"}, workspace.Garbage{Bytes: -1, Share: -1}},
	} {
		cmd := &cobra.Command{}
		f := syncFlags{connect: &connectFlags{}}
		f.add(cmd.Flags())
		if err := cmd.ParseFlags(append(tt.args, "--state", t.TempDir()+"/s.db")); err != nil {
			t.Fatal(err)
		}
		l, err := openSyncLocal(t.Context(), t.TempDir(), &syncTarget{url: "it"}, &syncRemote{}, &f, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.bounds.Garbage; got.Bytes != tt.want.Bytes || got.Share != tt.want.Share {
			t.Errorf("%v: %d bytes and %d%%, want %d and %d%%", tt.args, got.Bytes, got.Share, tt.want.Bytes, tt.want.Share)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
}
