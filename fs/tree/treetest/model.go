package treetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/tree"
)

// An op is one step of a plan.
type op struct {
	Verb       string
	Path, To   string
	Text       string
	Mode       uint32
	Reader, N  int
	Grace, Age time.Duration
}

var verbs = []string{
	"write", "write", "mkdir", "mkdirs", "symlink", "link", "rm", "rmr", "mv", "mv", "mv", "chmod",
	"file!", "file!", "dir", "lnk!", "del", "read", "read", "read", "open", "open", "collect",
}

var (
	drawName = rapid.SampledFrom([]string{"a", "b", "\uFF5E", "\U0001F600"})
	drawPath = rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(drawName, 1, 3).Draw(t, "path"), "/")
	})
	drawTarget = rapid.SampledFrom([]string{"a", "/b", "../a/b", "b/a", ".", "/"})
	drawText   = rapid.SampledFrom([]string{"", "x", "y", "xyz"})
	drawOp     = rapid.Custom(func(t *rapid.T) op {
		o := op{Verb: rapid.SampledFrom(verbs).Draw(t, "verb"), Path: drawPath.Draw(t, "path")}
		switch o.Verb {
		case "write", "file", "file!":
			o.Text, o.Mode = drawText.Draw(t, "text"), rapid.SampledFrom([]uint32{0o644, 0o755}).Draw(t, "mode")
		case "dir", "chmod":
			o.Mode = rapid.SampledFrom([]uint32{0o700, 0o755}).Draw(t, "mode")
		case "symlink", "lnk", "lnk!":
			o.Text = drawTarget.Draw(t, "target")
		case "link", "mv":
			o.To = drawPath.Draw(t, "to")
		case "read", "open":
			o.Reader, o.N = rapid.IntRange(0, readers-1).Draw(t, "reader"), rapid.IntRange(1, 5).Draw(t, "n")
		case "collect":
			o.Age = rapid.SampledFrom([]time.Duration{0, time.Minute, 2 * time.Hour}).Draw(t, "age")
			o.Grace = rapid.SampledFrom([]time.Duration{-1, time.Hour}).Draw(t, "grace")
		}
		return o
	})
)

const readers = 3

// model runs random plans on a tree and on a plain model of one. After each step the two
// must be the same, with the revisions of all paths; readers that lag behind follow the
// tree by its change stream, a few entries at a time between the steps, and must end with
// the same tree. (Entries are applied with tombs: without, a reader that was away while a
// directory became a file and a directory again would not.)
func model(t *testing.T, open func(testing.TB) tree.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(drawOp, 1, 40).Draw(rt, "plan")
		if err := play(t, open(t), plan); err != nil {
			rt.Fatal(err)
		}
	})
}

func play(t *testing.T, store tree.Store, plan []op) error {
	b := newBench(t, store)
	if err := b.tree.Share(t.Context()); err != nil {
		return err
	}
	m := newPlain()
	follow := make([]*follower, readers)
	for i := range follow {
		follow[i] = &follower{has: map[string]string{}}
	}
	for i, o := range plan {
		if err := step(b, m, follow, o); err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, o, err)
		}
	}
	want := m.contents()
	for _, f := range follow {
		for f.stream != nil || f.at.Compare(tree.At(m.rev)) < 0 {
			if err := f.read(b, 3); err != nil {
				return err
			}
		}
		if !maps.Equal(f.has, want) {
			return fmt.Errorf("a reader has %v, want %v", f.has, want)
		}
	}
	return b.forest.Check(t.Context())
}

func step(b *bench, m *plain, follow []*follower, o op) error {
	switch o.Verb {
	case "read":
		return follow[o.Reader].read(b, o.N)
	case "open":
		return checkStream(b, m, follow[o.Reader])
	case "collect":
		return checkCollect(b, m, o)
	}
	words := []string{o.Verb, o.Path}
	switch o.Verb {
	case "write":
		words = append(words, o.Text)
	case "file", "file!":
		words = append(words, fmt.Sprintf("%o", o.Mode), o.Text)
	case "dir":
		words = append(words, fmt.Sprintf("%o", o.Mode))
	case "chmod":
		words = []string{"chmod", fmt.Sprintf("%o", o.Mode), o.Path}
	case "symlink":
		words = []string{"symlink", o.Text, o.Path}
	case "lnk", "lnk!":
		words = append(words, o.Text)
	case "link", "mv":
		words = append(words, o.To)
	}
	before := m.clone()
	want := m.do(o)
	if want != "" {
		*m = *before
	}
	if got := code(b.do(words)); got != want {
		return fmt.Errorf("%q, want %q", got, want)
	}
	return checkTree(b, m)
}

// checkTree compares all paths with their revisions, and the tree's counts.
func checkTree(b *bench, m *plain) error {
	got := map[string]string{}
	err := b.tree.Walk(b.Context(), "/", func(i *tree.FileInfo) error {
		got[i.Path] = fmt.Sprint(i.Kind, " ", i.Rev, " ", i.Mode, " ", i.Manifest, " ", i.Target, " ", i.Links)
		return nil
	})
	if err != nil {
		return err
	}
	want := map[string]string{}
	info := tree.Info{Rev: m.rev}
	seen := map[*plainNode]bool{}
	for path, n := range m.paths() {
		manifest := tree.Hash{}
		if n.kind == tree.KindFile {
			manifest = tree.ManifestOf(partsOf(n.text))
		}
		want[path] = fmt.Sprint(n.kind, " ", m.revOf(path), " ", n.mode, " ", manifest, " ", n.target, " ", n.links)
		if n.kind == tree.KindDir {
			info.Dirs++
		} else if n.kind == tree.KindFile && !seen[n] {
			seen[n] = true
			info.Files++
			info.Bytes += int64(len(n.text))
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the tree is\n%v, want\n%v", got, want)
	}
	if i, err := b.tree.Info(b.Context()); err != nil || i != info {
		return fmt.Errorf("counts are %+v, %w; want %+v", i, err, info)
	}
	return nil
}

func partsOf(text string) []tree.Part {
	if text == "" {
		return nil
	}
	return []tree.Part{{Hash: tree.Sum([]byte(text)), Size: int64(len(text))}}
}

// checkStream opens a stream where a reader is, and reads it at once: each path that
// changed since is in it, once, in order, and nothing else.
func checkStream(b *bench, m *plain, f *follower) error {
	c, err := b.tree.Changes(b.Context(), tree.ChangesQuery{After: f.at})
	if err != nil {
		return err
	}
	var got, want []tree.Cursor
	for e, err := range c.All(b.Context()) {
		if err != nil {
			return err
		}
		got = append(got, tree.AtPath(e.Rev, e.Path))
		n := m.at(e.Path)
		switch {
		case (e.Kind == tree.KindDelete) != (n == nil), n != nil && n.kind != e.Kind:
			return fmt.Errorf("%s is said to be a %s", e.Path, e.Kind)
		case e.Kind == tree.KindFile && tree.ManifestOf(e.Parts) != tree.ManifestOf(partsOf(n.text)):
			return fmt.Errorf("%s has other content", e.Path)
		}
	}
	for path := range m.paths() {
		if at := tree.AtPath(m.revOf(path), path); at.Compare(f.at) > 0 && at.Rev > 0 {
			want = append(want, at)
		}
	}
	for path, rev := range m.tombs {
		if at := tree.AtPath(rev, path); at.Compare(f.at) > 0 && m.at(path) == nil {
			want = append(want, at)
		}
	}
	slices.SortFunc(want, tree.Cursor.Compare)
	if !slices.Equal(got, want) {
		return fmt.Errorf("changes after %v: %v, want %v", f.at, got, want)
	}
	return nil
}

// checkCollect lets time pass and collects. What the tree refers to must stay; of the
// rest, what is old enough goes.
func checkCollect(b *bench, m *plain, o op) error {
	b.clock.advance(o.Age)
	if _, err := b.forest.Collect(b.Context(), tree.Policy{Grace: o.Grace}); err != nil {
		return err
	}
	used := map[tree.Hash]bool{}
	for _, n := range m.paths() {
		for _, p := range partsOf(n.text) {
			used[p.Hash] = true
			if _, err := b.forest.Chunk(b.Context(), p.Hash, nil); err != nil {
				return err
			}
		}
	}
	if o.Age > tree.DefaultUnseen && o.Grace < 0 {
		return b.store.View(b.Context(), func(tx tree.Tx) error {
			return tx.EachChunk(func(c tree.Chunk, _ int64) error {
				if !used[c.Hash] {
					return fmt.Errorf("chunk %s was not collected", c.Hash)
				}
				return nil
			})
		})
	}
	return nil
}

// A follower keeps a copy of the tree by its change stream.
type follower struct {
	at     tree.Cursor
	stream *tree.Changes
	has    map[string]string // what is at a path
}

// read takes up to n entries, and the stream's end as progress.
func (f *follower) read(b *bench, n int) error {
	if f.stream == nil {
		c, err := b.tree.Changes(b.Context(), tree.ChangesQuery{After: f.at})
		if err != nil {
			return err
		}
		f.stream = c
	}
	list, err := f.stream.Next(context.Background(), n)
	if errors.Is(err, io.EOF) {
		if f.at.Compare(f.stream.Current) > 0 {
			return fmt.Errorf("a stream ends at %v, after %v", f.stream.Current, f.at)
		}
		f.at, f.stream = f.stream.Current, nil
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		at := tree.AtPath(e.Rev, e.Path)
		if at.Compare(f.at) <= 0 || at.Compare(f.stream.Current) > 0 {
			return fmt.Errorf("entry %v after %v, in a stream to %v", at, f.at, f.stream.Current)
		}
		f.at = at
		f.apply(&e)
	}
	return nil
}

func (f *follower) apply(e *tree.Entry) {
	kind, is := f.has[e.Path]
	if e.Kind == tree.KindDelete || is && kind[:1] == "d" && e.Kind != tree.KindDir {
		maps.DeleteFunc(f.has, func(p, _ string) bool { return p == e.Path || strings.HasPrefix(p, e.Path+"/") })
	}
	if e.Kind == tree.KindDelete || e.Path == "/" {
		return
	}
	for i, c := range e.Path { // what is above is a directory by now
		if i > 0 && c == '/' && !strings.HasPrefix(f.has[e.Path[:i]], "d") {
			f.has[e.Path[:i]] = "d 755"
		}
	}
	switch e.Kind {
	case tree.KindFile:
		f.has[e.Path] = fmt.Sprintf("f %o %s", e.Mode, tree.ManifestOf(e.Parts))
	case tree.KindSymlink:
		f.has[e.Path] = "l " + e.Target
	default:
		f.has[e.Path] = fmt.Sprintf("d %o", e.Mode)
	}
}

// A plain is the model: maps of whole paths.
type plain struct {
	rev   int64
	names map[string]plainName // by path; the root too
	tombs map[string]int64
	taken bool // the running step has its revision
}

type plainName struct {
	node *plainNode
	rev  int64
}

type plainNode struct {
	kind         tree.Kind
	mode         uint32
	text, target string
	rev, links   int64
}

func newPlain() *plain {
	root := &plainNode{kind: tree.KindDir, mode: 0o755, links: 1}
	return &plain{rev: 1, names: map[string]plainName{"/": {root, 0}}, tombs: map[string]int64{}}
}

func (m *plain) clone() *plain {
	c := &plain{rev: m.rev, names: map[string]plainName{}, tombs: maps.Clone(m.tombs)}
	copies := map[*plainNode]*plainNode{}
	for path, n := range m.names {
		if copies[n.node] == nil {
			node := *n.node
			copies[n.node] = &node
		}
		c.names[path] = plainName{copies[n.node], n.rev}
	}
	return c
}

func (m *plain) at(path string) *plainNode { return m.names[path].node }

func (m *plain) paths() map[string]*plainNode {
	out := map[string]*plainNode{}
	for path, n := range m.names {
		out[path] = n.node
	}
	return out
}

// contents is what a follower has of it.
func (m *plain) contents() map[string]string {
	f := follower{has: map[string]string{}}
	for _, path := range slices.Sorted(maps.Keys(m.names)) {
		n := m.at(path)
		f.apply(&tree.Entry{Kind: n.kind, Path: path, Mode: n.mode, Parts: partsOf(n.text), Target: n.target})
	}
	return f.has
}

func (m *plain) revOf(path string) int64 {
	rev := m.at(path).rev
	for p := path; p != "/"; p = dirOf(p) {
		rev = max(rev, m.names[p].rev)
	}
	return rev
}

func dirOf(path string) string { return cmp.Or(path[:strings.LastIndexByte(path, '/')], "/") }

func under(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

func (m *plain) mint() int64 {
	if !m.taken {
		m.taken = true
		m.rev++
	}
	return m.rev
}

func (m *plain) empty(path string) bool {
	for p := range m.names {
		if strings.HasPrefix(p, strings.TrimSuffix(path, "/")+"/") && p != "/" {
			return false
		}
	}
	return true
}

// resolve finds where a path leads, and makes the directories on the way if grow.
func (m *plain) resolve(path string, follow, grow bool) (string, string) {
	cur, links := "/", 0
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if m.at(cur).kind != tree.KindDir {
			return "", "ENOTDIR"
		}
		if name == ".." {
			if cur != "/" {
				cur = dirOf(cur)
			}
			continue
		}
		last := !slices.ContainsFunc(rest, func(s string) bool { return s != "" })
		p := under(cur, name)
		n := m.at(p)
		switch {
		case n == nil && last:
			return p, ""
		case n == nil && !grow:
			return "", "ENOENT"
		case n == nil:
			m.put(p, &plainNode{kind: tree.KindDir, mode: 0o755})
		case n.kind == tree.KindSymlink && (!last || follow):
			if links++; links > 40 {
				return "", "ELOOP"
			}
			if strings.HasPrefix(n.target, "/") {
				cur = "/"
			}
			rest = append(strings.Split(n.target, "/"), rest...)
			continue
		}
		cur = p
	}
	return cur, ""
}

func (m *plain) put(path string, n *plainNode) {
	n.rev, n.links = m.mint(), 1
	m.names[path] = plainName{n, n.rev}
}

func (m *plain) remove(path string, tombs bool) {
	rev := m.mint()
	for p, n := range m.names {
		if p == path || strings.HasPrefix(p, path+"/") {
			n.node.links--
			delete(m.names, p)
			if tombs {
				m.tombs[p] = rev
			}
		}
	}
}

// do is one step; it returns the code of the error.
func (m *plain) do(o op) string {
	m.taken = false
	switch o.Verb {
	case "write":
		return m.write(o)
	case "mkdir", "mkdirs", "symlink":
		p, err := m.resolve(o.Path, false, o.Verb != "mkdir")
		if err != "" {
			return err
		}
		n := m.at(p)
		if o.Verb == "mkdirs" && n != nil && n.kind == tree.KindSymlink {
			if p, err = m.resolve(p, true, false); err != "" {
				return err
			}
			if n = m.at(p); n == nil {
				return "ENOENT"
			}
		}
		switch {
		case n != nil && o.Verb == "mkdirs" && n.kind == tree.KindDir:
		case n != nil:
			return "EEXIST"
		case o.Verb == "symlink":
			m.put(p, &plainNode{kind: tree.KindSymlink, mode: 0o777, target: o.Text})
		default:
			m.put(p, &plainNode{kind: tree.KindDir, mode: 0o755})
		}
		return ""
	case "chmod":
		p, err := m.resolve(o.Path, true, false)
		if err == "" && m.at(p) == nil {
			err = "ENOENT"
		}
		if err == "" {
			m.at(p).mode, m.at(p).rev = o.Mode, m.mint()
		}
		return err
	case "rm", "rmr":
		p, err := m.resolve(o.Path, false, false)
		switch {
		case err != "":
			return err
		case m.at(p) == nil:
			return "ENOENT"
		case o.Verb == "rm" && !m.empty(p):
			return "ENOTEMPTY"
		}
		m.remove(p, true)
		return ""
	case "link":
		return m.link(o)
	case "mv":
		return m.move(o)
	}
	return m.apply(o)
}

func (m *plain) write(o op) string {
	p, err := m.resolve(o.Path, true, true)
	if err != "" {
		return err
	}
	n := m.at(p)
	switch {
	case n == nil:
		m.put(p, &plainNode{kind: tree.KindFile, mode: 0o644, text: o.Text})
	case n.kind != tree.KindFile:
		return "EISDIR"
	default:
		n.text, n.rev = o.Text, m.mint()
	}
	return ""
}

func (m *plain) link(o op) string {
	from, err := m.resolve(o.Path, false, false)
	switch {
	case err != "":
		return err
	case m.at(from) == nil:
		return "ENOENT"
	case m.at(from).kind == tree.KindDir:
		return "EPERM"
	}
	to, err := m.resolve(o.To, false, false)
	switch {
	case err != "":
		return err
	case m.at(to) != nil:
		return "EEXIST"
	}
	m.names[to] = plainName{m.at(from), m.mint()}
	m.at(from).links++
	return ""
}

func (m *plain) move(o op) string {
	from, err := m.resolve(o.Path, false, false)
	if err == "" && m.at(from) == nil {
		err = "ENOENT"
	}
	if err != "" {
		return err
	}
	to, err := m.resolve(o.To, false, false)
	if err != "" {
		return err
	}
	src, dst := m.at(from), m.at(to)
	switch isDir := src.kind == tree.KindDir; {
	case dst == src:
		return ""
	case isDir && strings.HasPrefix(to, from+"/"):
		return "EINVAL"
	case dst == nil:
	case isDir && dst.kind != tree.KindDir:
		return "ENOTDIR"
	case !isDir && dst.kind == tree.KindDir:
		return "EISDIR"
	case isDir && !m.empty(to):
		return "ENOTEMPTY"
	}
	if dst != nil {
		m.remove(to, false)
	}
	rev := m.mint()
	moved := map[string]plainName{}
	for p, n := range m.names {
		if p == from || strings.HasPrefix(p, from+"/") {
			delete(m.names, p)
			m.tombs[p] = rev
			moved[to+p[len(from):]] = n
		}
	}
	maps.Copy(m.names, moved)
	m.names[to] = plainName{src, rev}
	return ""
}

func (m *plain) apply(o op) string {
	verb, tombs := strings.CutSuffix(o.Verb, "!")
	if verb == "del" {
		if m.at(o.Path) != nil {
			m.remove(o.Path, true)
		}
		return ""
	}
	p := "/"
	segments := strings.Split(o.Path[1:], "/")
	for i, name := range segments {
		p = under(p, name)
		n := m.at(p)
		if i == len(segments)-1 {
			break
		}
		if n != nil && n.kind == tree.KindSymlink {
			if to, err := m.resolve(p, true, false); err == "" && m.at(to) != nil && m.at(to).kind == tree.KindDir {
				p = to
				continue
			}
		}
		if n == nil || n.kind != tree.KindDir {
			if n != nil {
				m.remove(p, false)
			}
			m.put(p, &plainNode{kind: tree.KindDir, mode: 0o755})
		}
	}
	n := m.at(p)
	made := &plainNode{kind: tree.KindDir, mode: o.Mode}
	switch verb {
	case "file":
		made = &plainNode{kind: tree.KindFile, mode: o.Mode, text: o.Text}
	case "lnk":
		made = &plainNode{kind: tree.KindSymlink, mode: 0o777, target: o.Text}
	}
	switch {
	case n == nil:
	case n.kind == made.kind && n.mode == made.mode && n.text == made.text && n.target == made.target:
		return ""
	case n.kind == made.kind && n.kind != tree.KindSymlink && n.links == 1:
		n.mode, n.text, n.rev = made.mode, made.text, m.mint()
		return ""
	case tombs && n.kind == tree.KindDir:
		m.remove(p, true)
		delete(m.tombs, p) // something is there at once
		m.taken = false
	default:
		m.remove(p, false)
	}
	m.put(p, made)
	return ""
}
