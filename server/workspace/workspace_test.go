package workspace_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// config is of a new directory, with its store and its mount point elsewhere.
func config(t *testing.T) workspace.Config {
	t.Helper()
	return workspace.Config{
		Dir: t.TempDir(), Store: filepath.Join(t.TempDir(), "store.db"), MountPoint: filepath.Join(t.TempDir(), "workspace"), NoWatch: true,
	}
}

func open(t *testing.T, cfg workspace.Config) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, f := range check(t, cfg) {
			t.Errorf("after the test: %s: %s", f.Check, f.What)
		}
	})
	return w
}

func check(t *testing.T, cfg workspace.Config) (found []workspace.Finding) {
	t.Helper()
	if err := workspace.Check(context.Background(), cfg, func(f workspace.Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	return found
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a command and returns what it printed and its exit code.
func run(t *testing.T, w *workspace.Workspace, req shell.Request) (string, int) {
	t.Helper()
	_, events, err := w.Runs.Exec(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	var out strings.Builder
	for {
		e, err := events.Next(t.Context())
		if err != nil {
			t.Fatalf("no exit: %v", err)
		}
		if e.Name == shell.Exit {
			return out.String(), e.Code
		}
		out.Write(e.Data)
	}
}

// entry is what the tree has at a path below the mount point.
func entry(t *testing.T, w *workspace.Workspace, name string) tree.FileInfo {
	t.Helper()
	info, err := w.Tree.Lstat(t.Context(), w.MountPoint+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// What is in the directory is in the tree, and what a run writes is there when its exit is
// told.
func TestRunsInTheWorkspace(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Dir+"/old", "old")
	w := open(t, cfg)
	if got := entry(t, w, "old"); got.Size != 3 {
		t.Errorf("old: %+v", got)
	}
	want := w.MountPoint
	if w.Unmounted() != nil {
		want = w.Dir
	}
	for cwd, dir := range map[string]string{"": want, w.MountPoint: want, w.Dir: want, "sub": want + "/sub"} {
		if err := os.MkdirAll(cfg.Dir+"/sub", 0o755); err != nil {
			t.Fatal(err)
		}
		out, code := run(t, w, shell.Request{Command: "pwd; echo 12345 >made", Cwd: cwd})
		if out != dir+"\n" || code != 0 {
			t.Errorf("cwd %q: %q, %d, want %q", cwd, out, code, dir)
		}
		if got := entry(t, w, strings.TrimPrefix(dir+"/made", want+"/")); got.Size != 6 {
			t.Errorf("cwd %q: %+v", cwd, got)
		}
		if err := os.Remove(cfg.Dir + strings.TrimPrefix(dir, want) + "/made"); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := run(t, w, shell.Request{Command: "pwd", Cwd: "/nowhere/at/all"}); code != -1 || !strings.HasPrefix(out, "spawn failed: ") {
		t.Errorf("a directory that is missing: %q, %d", out, code)
	}
}

// The absolute name works for commands where this program may have it so.
func TestAbsoluteName(t *testing.T) {
	cfg := config(t)
	w := open(t, cfg)
	if err := w.Unmounted(); err != nil {
		if os.Getuid() == 0 && !strings.Contains(err.Error(), "operation not permitted") {
			t.Error(err)
		}
		t.Skipf("not here: %v", err)
	}
	if out, code := run(t, w, shell.Request{Command: "echo x >" + w.MountPoint + "/abs && cat abs"}); out != "x\n" || code != 0 {
		t.Errorf("got %q, %d", out, code)
	}
	if b, err := os.ReadFile(cfg.Dir + "/abs"); err != nil || string(b) != "x\n" {
		t.Errorf("in the directory: %q, %v", b, err)
	}
	if _, err := os.Stat(w.MountPoint + "/abs"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("this program sees the mount point's view: %v", err)
	}
}

// Where the mount point is the directory itself, nothing needs to be done.
func TestMountPointIsDirectory(t *testing.T) {
	cfg := config(t)
	cfg.MountPoint = cfg.Dir
	w := open(t, cfg)
	if w.Mount.Namespace != nil || w.Unmounted() != nil {
		t.Errorf("%+v, %v", w.Mount, w.Unmounted())
	}
	if out, _ := run(t, w, shell.Request{Command: "pwd"}); out != cfg.Dir+"\n" {
		t.Errorf("pwd: %q", out)
	}
}

// A run goes on over the end of its workspace in its log, and a tree in its rows.
func TestReopen(t *testing.T) {
	cfg := config(t)
	w, err := workspace.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	rev := func(w *workspace.Workspace) int64 {
		info, err := w.Tree.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.Rev
	}
	if _, code := run(t, w, shell.Request{ID: "r", Command: "echo out; echo x >f"}); code != 0 {
		t.Fatal(code)
	}
	before, born := rev(w), w.Born
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, cfg)
	if !w.Born.Equal(born) || born.IsZero() {
		t.Errorf("its store was made at %v, and then at %v", born, w.Born)
	}
	if got := rev(w); got != before {
		t.Errorf("revision %d, want %d: nothing has changed", got, before)
	}
	events, err := w.Runs.GetExec(t.Context(), "r", shell.After{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	var names []string
	for {
		e, err := events.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	if strings.Join(names, " ") != "stdout exit" {
		t.Errorf("replayed %v", names)
	}
}

func TestRefusals(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Dir+"/file", "")
	for name, tt := range map[string]struct {
		change func(*workspace.Config)
		want   string
	}{
		"no directory":             {func(c *workspace.Config) { c.Dir += "/none" }, "no such file"},
		"a file":                   {func(c *workspace.Config) { c.Dir += "/file" }, "no directory"},
		"nothing":                  {func(c *workspace.Config) { c.Dir = "" }, "no directory"},
		"a store in the workspace": {func(c *workspace.Config) { c.Store = c.Dir + "/new/store.db" }, "--store"},
		"a relative mount point":   {func(c *workspace.Config) { c.MountPoint = "workspace" }, "path"},
		"the root as mount point":  {func(c *workspace.Config) { c.MountPoint = "/" }, "mount point"},
		"a mount point inside":     {func(c *workspace.Config) { c.MountPoint = c.Dir + "/sub" }, "--mount-point"},
		"a mount point around it":  {func(c *workspace.Config) { c.MountPoint = filepath.Dir(c.Dir) }, "--mount-point"},
		"a store that is no store": {func(c *workspace.Config) { c.Store = "/etc/passwd/x" }, "not a directory"},
		"a store that is a text":   {func(c *workspace.Config) { c.Store = textFile(t) }, "database"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			tt.change(&cfg)
			w, err := workspace.Open(t.Context(), cfg)
			if err == nil {
				t.Fatal("opened", w.Close())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to contain %q", err, tt.want)
			}
		})
	}
}

func textFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "text")
	write(t, path, strings.Repeat("this is no database ", 100))
	return path
}

// What is not the right to mount is told, and the directory is served all the same.
func TestMountPointThatIsAFile(t *testing.T) {
	cfg := config(t)
	cfg.MountPoint = textFile(t)
	w := open(t, cfg)
	if err := w.Unmounted(); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("got %v", err)
	}
	if out, _ := run(t, w, shell.Request{Command: "pwd", Cwd: cfg.MountPoint}); out != cfg.Dir+"\n" {
		t.Errorf("pwd: %q", out)
	}
}

func TestCheckFinds(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Dir+"/f", strings.Repeat("content ", 100))
	w, err := workspace.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	rots := []byte(strings.Repeat("kept ", 100)) // of a version that was lost, say
	if _, err := w.Forest.Pack(t.Context(), tree.Data{Hash: tree.Sum(rots), Bytes: rots}); err != nil {
		t.Fatal(err)
	}
	if err := workspace.Check(t.Context(), cfg, nil); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("a store in use: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := check(t, cfg); len(got) > 0 {
		t.Errorf("all is well, and found: %v", got)
	}
	// Content that rots keeps its length.
	objects, err := filepath.Glob(sqlite.ObjectsPath(cfg.Store) + "/*")
	if err != nil || len(objects) != 1 {
		t.Fatalf("objects: %q, %v", objects, err)
	}
	rots[0] ^= 1
	write(t, objects[0], string(rots))
	if got := check(t, cfg); len(got) == 0 || got[0].Check != workspace.CheckContent && got[0].Check != workspace.CheckStore {
		t.Errorf("rotten content: found %v", got)
	}
	cfg.Store += ".none"
	if err := workspace.Check(t.Context(), cfg, nil); !errors.Is(err, workspace.ErrNoStore) {
		t.Errorf("no store: %v", err)
	}
}

// What nothing names goes, in an offline collection too, but not at once.
func TestCollect(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Dir+"/f", "content")
	w := open(t, cfg)
	if err := os.Remove(cfg.Dir + "/f"); err != nil {
		t.Fatal(err)
	}
	if err := w.Disk.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, now := range []bool{false, true} {
		got, err := w.Collect(t.Context(), now)
		if err != nil || got.Chunks != 0 {
			t.Errorf("collected %+v, %v: it was seen a moment ago", got, err)
		}
	}
}

func TestDefaultStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my project")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	at := func(dir string) string {
		t.Helper()
		path, err := workspace.DefaultStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HOME", "/home/me")
	t.Setenv("XDG_STATE_HOME", "")
	path := at(dir)
	if parent, name := filepath.Split(path); parent != "/home/me/.local/state/wsd/workspaces/" || !strings.HasPrefix(name, "my_project-") || len(name) != len("my_project-0123456789abcdef.db") {
		t.Errorf("got %s", path)
	}
	if got := at(link); got != path {
		t.Errorf("by a link: %s, want %s", got, path)
	}
	t.Setenv("XDG_STATE_HOME", "/state")
	if got := at(dir); got != "/state/wsd/workspaces/"+filepath.Base(path) {
		t.Errorf("got %s", got)
	}
	if got := at("/tmp"); got == path {
		t.Error("two directories have one store")
	}
}

// Runs that are live when the workspace closes are ended and recorded.
func TestCloseEndsRuns(t *testing.T) {
	cfg := config(t)
	w, err := workspace.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, events, err := w.Runs.Exec(t.Context(), shell.Request{ID: "long", Command: "exec 2>/dev/null; trap 'echo last >f; exit 3' TERM; echo started; while :; do sleep 0.01; done"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := events.Next(t.Context()); err != nil || string(e.Data) != "started\n" {
		t.Fatalf("%+v, %v", e, err)
	}
	started := time.Now()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(started); d > 20*time.Second {
		t.Errorf("closing took %v", d)
	}
	w = open(t, cfg)
	if got := entry(t, w, "f"); got.Size != 5 {
		t.Errorf("what it wrote last: %+v", got)
	}
	rest, err := w.Runs.GetExec(t.Context(), "long", shell.After{Seq: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if e, err := rest.Next(t.Context()); err != nil || e.Name != shell.Exit || e.Code != 3 {
		t.Errorf("its end: %+v, %v", e, err)
	}
}
