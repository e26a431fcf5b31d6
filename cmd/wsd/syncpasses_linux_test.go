package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// memoryRemote is a server without a directory.
func memoryRemote(t *testing.T) *syncRemote {
	t.Helper()
	forest := tree.New(tree.NewMemory(), tree.Config{})
	root, err := forest.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	server := changes.New(changes.Config{Workspace: changes.Plain(forest, root), DefaultIgnore: []string{}})
	return &syncRemote{peer: server, mount: localMount, close: func() error { return nil }}
}

// onceJob is a run of wsd sync of a directory, which is open.
func onceJob(t *testing.T, dir, state string, remote *syncRemote) *syncJob {
	t.Helper()
	j := &syncJob{app: &app{stdout: io.Discard, stderr: io.Discard}, quiet: true}
	cmd := &cobra.Command{}
	j.flags.connect = &connectFlags{}
	j.flags.add(cmd.Flags())
	if err := j.flags.check(cmd); err != nil {
		t.Fatal(err)
	}
	j.flags.store = state
	var err error
	if j.local, err = openSyncLocal(t.Context(), dir, &syncTarget{url: "server"}, remote, &j.flags, false); err != nil {
		t.Fatal(err)
	}
	j.out = newSyncOutput(j)
	t.Cleanup(func() {
		j.out.close()
		if err := j.local.close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// A run of wsd sync without --watch looks at the whole directory once, and so do both steps
// of wsd exec --sync together.
func TestOneShotLooksOnce(t *testing.T) {
	steps := map[string]func(context.Context, *syncJob, *syncRemote) error{
		"sync": func(ctx context.Context, j *syncJob, remote *syncRemote) error { return j.keepOn(ctx, remote) },
		"exec --sync": func(ctx context.Context, j *syncJob, remote *syncRemote) error {
			for _, after := range []bool{false, true} {
				if _, err := new(execSync).step(ctx, j, remote, after); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, run := range steps {
		t.Run(name, func(t *testing.T) {
			dir, state, remote := t.TempDir(), filepath.Join(t.TempDir(), "state.db"), memoryRemote(t)
			for i := range 20 {
				sub := filepath.Join(dir, strconv.Itoa(i%4))
				if err := os.MkdirAll(sub, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(sub, strconv.Itoa(i)), []byte(strconv.Itoa(i)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, what := range []string{"all is new", "nothing is new"} {
				j := onceJob(t, dir, state, remote)
				if err := run(t.Context(), j, remote); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if got := j.local.disk.Stats().Passes; got != 1 {
					t.Errorf("%s: the whole directory was looked at %d times, want once", what, got)
				}
				if err := j.local.close(); err != nil {
					t.Fatal(err)
				}
				j.local = &syncLocal{}
			}
			e, err := remote.peer.ReadEntry(t.Context(), localMount+"/3/19")
			if err != nil || e == nil || e.Kind != tree.KindFile {
				t.Errorf("the server has %+v, %v", e, err)
			}
		})
	}
}

// countingPeer counts calls.
type countingPeer struct {
	changes.Peer
	watermarks, entries int
}

func (p *countingPeer) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	p.watermarks++
	return p.Peer.Watermarks(ctx, settle)
}

func (p *countingPeer) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	p.entries++
	return p.Peer.ReadEntry(ctx, path)
}

// A run with --remote-path that finds nothing to do asks the server once, as one without does.
func TestRemotePathAsksOnce(t *testing.T) {
	dir, state, remote := t.TempDir(), filepath.Join(t.TempDir(), "state.db"), memoryRemote(t)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("f"), 0o600); err != nil {
		t.Fatal(err)
	}
	calls := &countingPeer{Peer: remote.peer}
	remote.peer, remote.mount, remote.part = calls, localMount+"/part", "part"
	for range 2 {
		calls.watermarks, calls.entries = 0, 0
		j := onceJob(t, dir, state, remote)
		if err := j.keepOn(t.Context(), remote); err != nil {
			t.Fatal(err)
		}
		if err := j.local.close(); err != nil {
			t.Fatal(err)
		}
		j.local = &syncLocal{}
	}
	if calls.watermarks != 1 || calls.entries != 0 {
		t.Errorf("the server was asked %d times how far it is, and for %d entries; want 1 and 0", calls.watermarks, calls.entries)
	}
}
