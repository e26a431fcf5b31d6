//go:build e2e

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

const (
	// kills is how often the server is killed, longest how long it lives, and budget how
	// long all of it may take; when it is used up there must have been minKills.
	kills    = 310
	minKills = 300
	longest  = 90 * time.Millisecond
	budget   = 12 * time.Minute
	// batch is how many files one push has.
	batch = 12
)

// A world is a workspace that outlives its servers.
type world struct {
	t     *testing.T
	wsd   string
	home  string
	dir   string
	store string
	rand  *rand.Rand

	acknowledged int64 // generation of the last push that was answered
	sent         int64 // of the last that was begun
	wrote        int64 // of the last file that was written in the directory itself
	seen         int64 // of those, the last that a client has fetched
	ran          int64 // the last command whose end was seen
	cursor       tree.Cursor
}

func TestKill(t *testing.T) {
	program, err := target.WsdPath(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	home := t.TempDir()
	w := &world{t: t, wsd: program, home: home, dir: filepath.Join(home, "dir"), store: filepath.Join(home, "store.db"), rand: rand.New(rand.NewPCG(seed, 1))}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	begin, n := time.Now(), 0
	for n < kills && time.Since(begin) < budget {
		n++
		w.round()
		w.check()
		if t.Failed() {
			t.Fatalf("after kill %d", n)
		}
	}
	t.Logf("%d kills in %v: generation %d pushed, %d acknowledged, %d files written beside, %d fetched, %d commands run",
		n, time.Since(begin).Round(time.Second), w.sent, w.acknowledged, w.wrote, w.seen, w.ran)
	if n < minKills {
		t.Errorf("%d kills in %v only", n, budget)
	}
	if w.acknowledged == 0 || w.seen == 0 || w.ran == 0 {
		t.Error("no server lived long enough to do anything")
	}
}

// round lets a server work for a while and kills it.
func (w *world) round() {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	watch := w.rand.IntN(3) > 0 // else it looks at everything each time
	s, err := target.Start(ctx, target.Config{
		Kind: target.Wsd, Path: w.wsd, Dir: w.home, Home: w.home, Log: os.Stderr,
		Args: []string{"--log-level", "error", "--workspace", w.dir, "--store", w.store, fmt.Sprintf("--workspace-watch=%t", watch)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := client.Dial(ctx, s.URL, &client.Options{Reconnect: client.Reconnect{Disabled: true}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.replay(ctx, c)
	var wg sync.WaitGroup
	for _, work := range []func(context.Context, *client.Client) error{w.push, w.write, w.fetch, w.run} {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := work(ctx, c); err != nil {
					if !gone(err) {
						w.t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Go(func() { w.collect(ctx) })
	<-time.After(time.Duration(w.rand.Int64N(int64(longest)))) // the instant of the kill is what this is about
	p, err := os.FindProcess(s.PID)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		w.t.Error(err)
	}
	<-s.Done()
	cancel()
	_ = c.Close()
	wg.Wait()
}

// gone says that the server was killed under a call.
func gone(err error) bool {
	return errors.Is(err, client.ErrTransportClosed) || errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled)
}

// push pushes the next generation: all files of a batch, in one push.
func (w *world) push(ctx context.Context, c *client.Client) error {
	gen := w.sent + 1
	w.sent = gen
	var objects []tree.Data
	var list []tree.Entry
	for i := range batch {
		data := fmt.Appendf(nil, "%d of generation %d\n", i, gen)
		o := tree.Data{Hash: tree.Sum(data), Bytes: data}
		objects = append(objects, o)
		list = append(list, tree.Entry{
			Kind: tree.KindFile, Rev: gen, Path: fmt.Sprintf("/workspace/pushed/%d/file", i), Mode: 0o644,
			MTime: time.Now().Truncate(time.Millisecond), Size: int64(len(data)), Parts: []tree.Part{{Hash: o.Hash, Size: int64(len(data))}},
		})
	}
	// What comes and goes: a directory in one generation, a file in the next, nothing in the third.
	flip := tree.Entry{Kind: tree.KindDir, Rev: gen, Path: "/workspace/pushed/flip", Mode: 0o755, MTime: time.Now().Truncate(time.Millisecond)}
	switch gen % 3 {
	case 1:
		flip.Kind, flip.Mode, flip.Size, flip.Parts = tree.KindFile, 0o600, list[0].Size, list[0].Parts
	case 2:
		flip = tree.Entry{Kind: tree.KindDelete, Rev: gen, Path: flip.Path}
	}
	if err := c.Sync().PushObjects(ctx, changes.FromSlice(objects)); err != nil {
		return err
	}
	if _, err := c.Sync().Push(ctx, changes.PushInput{SenderRev: gen}, changes.FromSlice(append(list, flip))); err != nil {
		return err
	}
	w.acknowledged = gen
	return nil
}

// write writes a file in the directory, as a program of the user's would.
func (w *world) write(ctx context.Context, _ *client.Client) error {
	n := w.wrote + 1
	name := filepath.Join(w.dir, "own", fmt.Sprint(n%50))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", fmt.Appendln(nil, n), 0o644); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	w.wrote = n
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(rand.Int64N(int64(2 * time.Millisecond)))):
	}
	return nil
}

// fetch follows the changes as a peer does.
func (w *world) fetch(ctx context.Context, c *client.Client) error {
	f, err := c.Sync().FetchChanges(ctx, changes.FetchQuery{After: w.cursor, Ignore: []string{}})
	if err != nil {
		return err
	}
	for e, err := range changes.All(ctx, f.Entries) {
		if err != nil {
			return err
		}
		at := tree.AtPath(e.Rev, e.Path)
		if at.Compare(w.cursor) <= 0 {
			return fmt.Errorf("entry %+v behind cursor %+v", at, w.cursor)
		}
		w.cursor = at
		if strings.HasPrefix(e.Path, "/workspace/own/") {
			w.seen++
		}
	}
	if f.Current.Compare(w.cursor) < 0 {
		return fmt.Errorf("the stream ends at %+v and had %+v", f.Current, w.cursor)
	}
	w.cursor = f.Current
	return nil
}

// run runs a command, which leaves a file behind that tells of a run that has ended.
func (w *world) run(ctx context.Context, c *client.Client) error {
	id := fmt.Sprintf("run-%d", w.ran+1)
	r, err := c.Exec(ctx, client.DurableCommand{ID: id, Line: "mkdir -p ran && seq 1 500 && echo " + id + " > ran/last"})
	if err != nil {
		return err
	}
	defer r.Close()
	var out strings.Builder
	code, err := r.Wait(ctx, &out, &out)
	if err != nil {
		return err
	}
	if code != 0 || !strings.HasSuffix(out.String(), "\n500\n") {
		return fmt.Errorf("%s ended with %d and %d bytes of output", id, code, out.Len())
	}
	w.ran++
	return nil
}

// replay follows the last run that has ended, and one that may not have, after a restart.
func (w *world) replay(ctx context.Context, c *client.Client) {
	for _, n := range []int64{w.ran, w.ran + 1} {
		r, err := c.GetExec(ctx, fmt.Sprintf("run-%d", n), 0)
		if err != nil {
			if n <= w.ran && n > 0 || n > w.ran && !strings.Contains(err.Error(), "ENOENT") && !strings.Contains(err.Error(), "no exec record") {
				w.t.Errorf("run %d of %d: %v", n, w.ran, err)
			}
			continue
		}
		var out strings.Builder
		code, err := r.Wait(ctx, &out, &out)
		whole := strings.HasSuffix(out.String(), "\n500\n")
		switch {
		case err != nil:
			w.t.Errorf("run %d of %d: %v", n, w.ran, err)
		case n <= w.ran && (code != 0 || !whole), n > w.ran && code != -1 && (code != 0 || !whole):
			w.t.Errorf("run %d of %d ended with %d and %d bytes of output", n, w.ran, code, out.Len())
		}
		r.Close()
	}
}

// collect runs a collection now and then, as somebody on the machine would.
func (w *world) collect(ctx context.Context) {
	for ctx.Err() == nil {
		_ = exec.CommandContext(ctx, w.wsd, "gc", "--workspace", w.dir, "--store", w.store).Run() // the server may be gone
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check looks at what a kill has left.
func (w *world) check() {
	out, err := exec.CommandContext(w.t.Context(), w.wsd, "fsck", "--workspace", w.dir, "--store", w.store).CombinedOutput()
	if err != nil {
		w.t.Errorf("fsck: %v\n%s", err, out)
	}
	// All of an acknowledged push is there, or of a later one; and one push is there whole.
	var first int64
	for i := range batch {
		gen, err := generation(filepath.Join(w.dir, "pushed", fmt.Sprint(i), "file"))
		switch {
		case errors.Is(err, os.ErrNotExist) && w.acknowledged == 0:
			continue
		case err != nil:
			w.t.Error(err)
			continue
		}
		if i == 0 {
			first = gen
		}
		if gen != first || gen < w.acknowledged || gen > w.sent {
			w.t.Errorf("file %d is of generation %d, the first of %d; %d was acknowledged, %d sent", i, gen, first, w.acknowledged, w.sent)
		}
	}
	if n, err := os.ReadFile(filepath.Join(w.dir, "own", fmt.Sprint(w.wrote%50))); w.wrote > 0 && (err != nil || string(n) != fmt.Sprintln(w.wrote)) {
		t := strings.TrimSpace(string(n))
		w.t.Errorf("the file written last has %q, not %d: %v", t, w.wrote, err)
	}
}

// generation is which one a pushed file is of.
func generation(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, text, ok := strings.Cut(strings.TrimSpace(string(data)), " of generation ")
	if !ok {
		return 0, fmt.Errorf("%s has %q", path, data)
	}
	return strconv.ParseInt(text, 10, 64)
}
