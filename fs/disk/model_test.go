package disk_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A model is a directory in memory: for each path "dir 0755", "file 0644 text" or
// "link target".
type model map[string]string

func (m model) kind(p string) string {
	kind, _, _ := strings.Cut(m[p], " ")
	return kind
}

// parent reports whether the directory of a path is there.
func (m model) parent(p string) bool {
	d := path.Dir(p)
	return d == "." || m.kind(d) == "dir"
}

func (m model) below(p string) []string {
	var list []string
	for q := range m {
		if strings.HasPrefix(q, p+"/") {
			list = append(list, q)
		}
	}
	return list
}

func (m model) remove(p string) {
	for _, q := range m.below(p) {
		delete(m, q)
	}
	delete(m, p)
}

// A step is what a command, a peer or the workspace does.
type step struct {
	op, path, other, text string
	mode                  uint32
	batch                 []step
}

var names = []string{"a", "b", "c", "d-e", "ü", "e\U0010FEE9"}

func drawPath(t *rapid.T, label string) string {
	n := rapid.IntRange(1, 3).Draw(t, label+" depth")
	var list []string
	for range n {
		list = append(list, rapid.SampledFrom(names).Draw(t, label))
	}
	return strings.Join(list, "/")
}

func drawEntry(t *rapid.T) step {
	s := step{op: rapid.SampledFrom([]string{"file", "file", "dir", "link", "delete", "delete"}).Draw(t, "entry"), path: drawPath(t, "path")}
	s.text = rapid.SampledFrom([]string{"", "x", "yy", "zzz"}).Draw(t, "text")
	s.mode = rapid.SampledFrom([]uint32{0o644, 0o755, 0o600, 0}).Draw(t, "mode")
	if s.op == "dir" {
		s.mode = rapid.SampledFrom([]uint32{0o755, 0o700, 0o1777}).Draw(t, "dir mode")
	}
	s.other = rapid.SampledFrom([]string{"nowhere", "a", "../b", "/etc", "."}).Draw(t, "target")
	return s
}

func drawStep(t *rapid.T) step {
	s := step{op: rapid.SampledFrom([]string{
		"write", "write", "write", "append", "replace", "mkdir", "remove", "rename", "rename", "rename", "chmod", "symlink", "hardlink", "touch",
		"settle", "settle", "apply", "apply", "apply", "reopen", "fifo",
	}).Draw(t, "op")}
	s.path, s.other = drawPath(t, "path"), drawPath(t, "other")
	s.text = rapid.SampledFrom([]string{"", "x", "yy", "zzz", "longer text"}).Draw(t, "text")
	s.mode = rapid.SampledFrom([]uint32{0o644, 0o755, 0o600, 0o4711}).Draw(t, "mode")
	if s.op == "apply" {
		for range rapid.IntRange(1, 6).Draw(t, "entries") {
			s.batch = append(s.batch, drawEntry(t))
		}
	}
	return s
}

// A world is a workspace and its model.
type world struct {
	*bench
	model model
	small bool // the workspace does everything in batches of two
}

func (w *world) shrink() {
	if w.small {
		w.ws.Shrink()
	}
}

// command does to the directory what a command might, and to the model what came of it.
func (w *world) command(s step) error {
	p, m := w.path(s.path), w.model
	switch s.op {
	case "write", "append", "replace":
		if !m.parent(s.path) || m.kind(s.path) == "dir" || m.kind(s.path) == "link" || strings.HasPrefix(m[s.path], "fifo") {
			return nil
		}
		return w.writeFile(s)
	case "mkdir":
		if !m.parent(s.path) || m[s.path] != "" {
			return nil
		}
		m[s.path] = "dir 0755"
		return os.Mkdir(p, 0o755)
	case "remove":
		if !m.parent(s.path) {
			return nil
		}
		m.remove(s.path)
		return os.RemoveAll(p)
	case "rename":
		return w.rename(s)
	case "chmod":
		if m.kind(s.path) == "file" {
			_, text, _ := strings.Cut(strings.TrimPrefix(m[s.path], "file "), " ")
			if err := unix.Chmod(p, s.mode); err != nil {
				return err
			}
			info, err := os.Lstat(p)
			if err != nil {
				return err
			}
			return w.sameFile(info, fmt.Sprintf("file %04o %s", s.mode, text))
		}
	case "symlink":
		if m.parent(s.path) && m[s.path] == "" {
			m[s.path] = "link " + s.other
			return os.Symlink(rawname.Raw(s.other), p)
		}
	case "hardlink":
		if m.kind(s.path) == "file" && m.parent(s.other) && m[s.other] == "" {
			m[s.other] = m[s.path]
			return os.Link(p, w.path(s.other))
		}
	case "touch":
		if m.kind(s.path) == "file" {
			return os.Chtimes(p, entryTime, entryTime)
		}
	case "fifo":
		if m.parent(s.path) && m[s.path] == "" {
			m[s.path] = "fifo"
			return unix.Mkfifo(p, 0o600)
		}
	}
	return nil
}

func (w *world) writeFile(s step) error {
	p, m := w.path(s.path), w.model
	mode, text := "0644", ""
	if m.kind(s.path) == "file" {
		mode, text, _ = strings.Cut(strings.TrimPrefix(m[s.path], "file "), " ")
	}
	if s.op == "append" {
		// Written through one name, it is the same under all.
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(s.text)
		info, err2 := f.Stat()
		if err := errors.Join(err, err2, f.Close()); err != nil {
			return err
		}
		text += s.text
		m[s.path] = "file " + mode + " " + text
		return w.sameFile(info, m[s.path])
	}
	// Beside it and renamed, as editors do.
	temp := p + ".new"
	if err := os.WriteFile(temp, []byte(s.text), 0o644); err != nil {
		return err
	}
	m[s.path] = "file 0644 " + s.text
	return os.Rename(temp, p)
}

// sameFile gives all names of a file one state.
func (w *world) sameFile(info os.FileInfo, state string) error {
	for p := range w.model {
		if w.model.kind(p) != "file" {
			continue
		}
		other, err := os.Lstat(w.path(p))
		if err != nil {
			return err
		}
		if os.SameFile(info, other) {
			w.model[p] = state
		}
	}
	return nil
}

func (w *world) rename(s step) error {
	m := w.model
	if m[s.path] == "" || s.path == s.other || !m.parent(s.other) || strings.HasPrefix(s.other, s.path+"/") {
		return nil
	}
	err := os.Rename(w.path(s.path), w.path(s.other))
	if err != nil {
		if m[s.other] != "" { // the kinds do not fit, or it is not empty
			return nil
		}
		return err
	}
	if from, err := os.Lstat(w.path(s.path)); err == nil {
		// Two names of one file: rename does nothing.
		if to, err := os.Lstat(w.path(s.other)); err == nil && os.SameFile(from, to) {
			return nil
		}
	}
	m.remove(s.other)
	for _, q := range m.below(s.path) {
		m[s.other+strings.TrimPrefix(q, s.path)] = m[q]
	}
	m[s.other] = m[s.path]
	m.remove(s.path)
	return nil
}

// applied is what the model makes of entries: what sync.md says of them.
func (w *world) applied(batch []step) []tree.Entry {
	var list []tree.Entry
	for _, s := range batch {
		p := "/workspace/" + s.path
		switch s.op {
		case "file":
			list = append(list, w.file(p, s.text, s.mode))
		case "dir":
			list = append(list, folder(p, s.mode))
		case "link":
			list = append(list, link(p, s.other))
		default:
			list = append(list, remove(p))
		}
	}
	return list
}

// check compares the directory, without what is special in it, and the tree with the model.
func (w *world) compare() error {
	want, list := maps.Clone(map[string]string(w.model)), w.inTree()
	for p, s := range want {
		if s == "fifo" {
			delete(want, p)
			model(list).remove(p) // what the tree had there, it has still
		}
	}
	got := onDisk(w.t, w.dir)
	for p, s := range got {
		if s == "special" {
			delete(got, p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("directory (-want +got):\n%s", diff)
	}
	for p, s := range want {
		// One with nothing but what no tree can have is taken for what a removal has left.
		var mode uint32
		if _, err := fmt.Sscanf(s, "dir %o", &mode); err != nil || list[p] != "" {
			continue
		}
		dir := folder("", mode)
		if e, err := w.tree.Entry(context.Background(), "/workspace/"+p); err == nil && e.Kind == tree.KindDelete && e.Prior == tree.Fingerprint(&dir) {
			delete(want, p)
		}
	}
	if diff := cmp.Diff(want, list); diff != "" {
		return fmt.Errorf("tree (-want +got):\n%s", diff)
	}
	return nil
}

func (w *world) do(s step) error {
	switch s.op {
	case "settle":
		w.settle()
		return w.compare()
	case "reopen":
		w.reopen()
		w.shrink()
		return w.compare()
	case "apply":
		w.settle()
		if err := w.compare(); err != nil {
			return err
		}
		how := tree.SkipSame
		if s.mode == 0o600 {
			how |= tree.RealParents
		}
		_, err := w.ws.Apply(context.Background(), seq(w.applied(s.batch)), how, nil)
		if pending, ok := errors.AsType[*changes.PendingError](err); ok && pending.Partly {
			for p, s := range onDisk(w.t, w.dir) { // something waits for one of them
				if s == "special" {
					w.must(os.Remove(w.path(p)))
				}
			}
			err = nil
		}
		if err != nil {
			return err
		}
		// What entries mean is the tree's to say, and tested there; the directory follows.
		w.settle()
		w.model = w.inTree()
		for p, s := range onDisk(w.t, w.dir) {
			switch {
			case s == "special":
				w.model.remove(p)
				w.model[p] = "fifo"
			case w.model[p] != "":
			case strings.HasPrefix(s, "dir "):
				// It stays for what no tree can have, and is no news. The model has no such thing.
				if err := os.RemoveAll(w.path(p)); err != nil {
					return err
				}
			}
		}
		for p := range w.model {
			if _, err := os.Lstat(w.path(p)); errors.Is(err, os.ErrNotExist) && w.model[p] == "fifo" {
				delete(w.model, p)
			}
		}
		return w.compare()
	default:
		return w.command(s)
	}
}

// withChecks sets how many plans rapid tries, unless somebody asks for another number.
func withChecks(t *testing.T, n int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	was := f.Value.String()
	if was != f.DefValue {
		return
	}
	if err := f.Value.Set(fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(was); err != nil {
			t.Error(err)
		}
	})
}

func TestModel(t *testing.T) {
	withChecks(t, 24/fewer)
	for _, c := range []struct{ watch, small bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("watch=%v, small=%v", c.watch, c.small), func(t *testing.T) {
			base := fastDir(t)
			var rounds atomic.Int64
			rapid.Check(t, func(rt *rapid.T) {
				steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 40).Draw(rt, "steps")
				dir := filepath.Join(base, fmt.Sprint(rounds.Add(1)))
				if err := os.Mkdir(dir, 0o755); err != nil {
					rt.Fatal(err)
				}
				w := &world{bench: benchAt(rt, dir, filepath.Join(dir, "store"), disk.Config{Watch: c.watch}), model: model{}}
				w.small = c.small
				w.shrink()
				defer func() {
					if w.ws != nil {
						_ = w.ws.Close()
					}
					_ = w.db.Close()
					_ = os.RemoveAll(dir)
				}()
				for i, s := range steps {
					if err := w.do(s); err != nil {
						rt.Fatalf("step %d %+v: %v", i, s, err)
					}
				}
				w.settle()
				if err := w.compare(); err != nil {
					rt.Fatalf("at the end: %v", err)
				}
				if got := len(w.inTree()); w.ws.Stats().Paths != got {
					rt.Errorf("the index has %d paths, the tree %d", w.ws.Stats().Paths, got)
				}
				w.check()
				w.must(w.db.Check(context.Background()))
			})
		})
	}
}
