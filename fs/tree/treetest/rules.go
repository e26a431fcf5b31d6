package treetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Each rule: what is done, then what the tree is.
var ruleCases = []struct{ name, script, want string }{
	{"write makes parents, once", "write /a/b/c x\nwrite /a/b/d y", "d /a 755\nd /a/b 755\nf /a/b/c 644 x\nf /a/b/d 644 y"},
	{"write keeps the mode", "write /f x\nchmod 600 /f\nwrite /f y", "f /f 600 y"},
	{"paths are made canonical", "write a//b/../c/./d x", "d /a 755\nd /a/c 755\nf /a/c/d 644 x"},
	{"dots stay below the root", "write /../../etc/passwd x", "d /etc 755\nf /etc/passwd 644 x"},
	{"odd names", `write "/a\\b %_*[x]" x` + "\nwrite \"/é\" 1\nwrite \"/e\u0301\" 2", "f /a\\b %_*[x] 644 x\nf /e\u0301 644 2\nf /é 644 1"},
	{"NUL in a path", `write "/a\x00b" x => EINVAL`, ""},
	{"not UTF-8", `write "/a\xff" x => EINVAL`, ""},
	{"write onto a directory", "mkdir /d\nwrite /d x => EISDIR\nwrite / x => EISDIR", "d /d 755"},
	{"write below a file", "write /f x\nwrite /f/g y => ENOTDIR", "f /f 644 x"},
	{"mkdir", "mkdir /d\nmkdir /d => EEXIST\nmkdir /x/y => ENOENT\nmkdir /", "d /d 755"},
	{"mkdirs", "mkdirs /a/b/c\nmkdirs /a/b\nwrite /f x\nmkdirs /f => EEXIST\nmkdirs /f/g => ENOTDIR", "d /a 755\nd /a/b 755\nd /a/b/c 755\nf /f 644 x"},
	{"mkdirs of a link to a directory", "mkdir /d\nsymlink d /l\nmkdirs /l/e\nmkdirs /l", "d /d 755\nd /d/e 755\nl /l -> d"},
	{"symlink", "symlink nowhere /x/l\nsymlink y /x/l => EEXIST\nsymlink x / => EPERM", "d /x 755\nl /x/l -> nowhere"},
	{"symlink to nothing", `symlink "" /l => EINVAL` + "\n" + `symlink " \n" /l => EINVAL` + "\n" + `symlink "a\x00" /l => EINVAL`, ""},
	{"symlink too long", "symlink " + strings.Repeat("x", 4097) + " /l => ENAMETOOLONG", ""},
	{"write through a link", "write /f x\nsymlink f /l\nwrite /l y", "f /f 644 y\nl /l -> f"},
	{"write through a dangling link", "symlink d/f /l\nwrite /l y", "d /d 755\nf /d/f 644 y\nl /l -> d/f"},
	{"links within a path", "mkdirs /a/b\nsymlink /a /l\nsymlink ../a/b /a/m\nwrite /l/m/f x", "d /a 755\nd /a/b 755\nf /a/b/f 644 x\nl /a/m -> ../a/b\nl /l -> /a"},
	{"dots after a link are physical", "mkdirs /a/b\nmkdir /c\nsymlink /a/b /c/l\nsymlink c/l/.. /up\nwrite /up/f x", "d /a 755\nd /a/b 755\nf /a/f 644 x\nd /c 755\nl /c/l -> /a/b\nl /up -> c/l/.."},
	{"a link never leaves the tree", "symlink ../../../../f /l\nwrite /l x", "f /f 644 x\nl /l -> ../../../../f"},
	{"a link to itself", "symlink l /l\nwrite /l x => ELOOP\nwrite /l/f x => ELOOP", "l /l -> l"},
	{"rm", "write /f x\nsymlink f /l\nrm /l\nrm /nothing => ENOENT\nrm / => EPERM", "f /f 644 x"},
	{"rm of a directory", "write /d/f x\nrm /d => ENOTEMPTY\nrm /d/f\nrm /d", ""},
	{
		"rmr takes what is named", "write /my_dir/a x\nwrite /myXdir/b x\nwrite /100%/c x\nwrite /100x/d x\nwrite /a/f x\nwrite /a.b x\nwrite /a0 x\nrmr /my_dir\nrmr /100%\nrmr /a",
		"d /100x 755\nf /100x/d 644 x\nf /a.b 644 x\nf /a0 644 x\nd /myXdir 755\nf /myXdir/b 644 x",
	},
	{"rmr with two names of a file", "write /d/a x\nlink /d/a /d/b\nlink /d/a /c\nrmr /d", "f /c 644 x"},
	{"rmr does not follow", "write /d/f x\nmkdir /e\nsymlink /d /e/l\nrmr /e", "d /d 755\nf /d/f 644 x"},
	{"mv of a file", "write /a x\nwrite /b y\nmv /a /b", "f /b 644 x"},
	{"mv onto itself", "write /a x\nmv /a /a\nlink /a /b\nmv /a /b", "f /a 644 x\nf /b 644 x"},
	{"mv of a directory", "write /a/b/c x\nmv /a /z\nwrite /a y", "f /a 644 y\nd /z 755\nd /z/b 755\nf /z/b/c 644 x"},
	{"mv of a directory onto an empty one", "write /a/b x\nmkdir /z\nmv /a /z", "d /z 755\nf /z/b 644 x"},
	{"mv of a directory onto a full one", "write /a/b x\nwrite /z/y x\nmv /a /z => ENOTEMPTY", "d /a 755\nf /a/b 644 x\nd /z 755\nf /z/y 644 x"},
	{"mv into itself", "write /a/b/c x\nmv /a /a/b/d => EINVAL\nmv /a /a/d => EINVAL", "d /a 755\nd /a/b 755\nf /a/b/c 644 x"},
	{"mv into itself through a link", "mkdirs /a/b\nsymlink a/b /l\nmv /a /l/d => EINVAL", "d /a 755\nd /a/b 755\nl /l -> a/b"},
	{"mv of kinds", "write /f x\nmkdir /d\nmv /f /d => EISDIR\nmv /d /f => ENOTDIR\nmv / /x => EPERM\nmv /d / => EPERM\nmv /n /m => ENOENT\nmv /f /n/m => ENOENT", "d /d 755\nf /f 644 x"},
	{"mv of a link", "symlink t /l\nwrite /f x\nmv /l /f", "l /f -> t"},
	{"mv over the parent", "write /a/b x\nmv /a/b /a => EISDIR", "d /a 755\nf /a/b 644 x"},
	{"swap of two files", "write /a x\nwrite /b y\nmv /a /t\nmv /b /a\nmv /t /b", "f /a 644 y\nf /b 644 x"},
	{"link", "write /a x\nlink /a /b\nwrite /b y\nmkdir /d\nlink /d /e => EPERM\nlink /a /b => EEXIST\nlink /n /m => ENOENT", "f /a 644 y\nf /b 644 y\nd /d 755"},
	{"chmod", "write /f x\nsymlink f /l\nchmod 100755 /l\nchmod 600 /n => ENOENT", "f /f 755 x\nl /l -> f"},
	{"name too long", "write /" + strings.Repeat("n", 256) + " x => ENAMETOOLONG", ""},
	{"name too long through a link", "symlink " + strings.Repeat("n", 256) + " /l\nwrite /l x => ENAMETOOLONG", "l /l -> " + strings.Repeat("n", 256)},
	{"path too long", "write " + strings.Repeat("/0123456789abcde", 257) + " x => ENAMETOOLONG", ""},

	{"apply makes parents", "file /a/b/f 600 x\ndir /a 700", "d /a 700\nd /a/b 755\nf /a/b/f 600 x"},
	{"apply: file below a file", "file /t 644 x\nfile /t/t 644 y", "d /t 755\nf /t/t 644 y"},
	{"apply: directory becomes file", "write /d/a x\nfile /d 644 y", "f /d 644 y"},
	{"apply: file, directory, link, file", "file /p 644 x\ndir /p 700\nlnk /p t\nfile /p 644 y", "f /p 644 y"},
	{"apply: directory becomes link", "write /e/f x\nwrite /d/a x\nlnk /d e\nfile /d/g 644 y", "l /d -> e\nd /e 755\nf /e/f 644 x\nf /e/g 644 y"},
	{"apply: dangling link above", "lnk /l nowhere\nfile /l/f 644 x", "d /l 755\nf /l/f 644 x"},
	{"apply: looping link above", "lnk /l l\nfile /l/f 644 x", "d /l 755\nf /l/f 644 x"},
	{"apply: link to a file above", "write /f x\nlnk /l f\nfile /l/g 644 y", "f /f 644 x\nd /l 755\nf /l/g 644 y"},
	{"apply: link to the root above", "lnk /l /\nfile /l/g 644 y", "f /g 644 y\nl /l -> /"},
	{"apply of a peer: link to a directory above", "write /e/f x\nlnk /d e\nfile~ /d/g 644 y\nlnk~ /d/h/l t", "d /d 755\nf /d/g 644 y\nd /d/h 755\nl /d/h/l -> t\nd /e 755\nf /e/f 644 x"},
	{"apply of a peer: directory above", "dir /d 700\nfile~ /d/g 644 y", "d /d 700\nf /d/g 644 y"},
	{"apply: delete", "write /d/a x\ndel /d/a\ndel /d/b\ndel /n/m\ndel /d\ndel /d/a", ""},
	{"apply: delete does not follow", "write /e/f x\nsymlink e /d\ndel /d/f", "l /d -> e\nd /e 755\nf /e/f 644 x"},
	{"apply: the root", "dir / 700\ndel / => EPERM\nfile / 644 x => EPERM", ""},
	{"apply: strict paths", "file a 644 x => EINVAL\nfile /a/ 644 x => EINVAL\nfile /a/../b 644 x => EINVAL\ndel \"\" => EINVAL", ""},
	{"apply: one name of a file", "write /a x\nlink /a /b\nfile /b 600 y", "f /a 644 x\nf /b 600 y"},
	{"apply: mode of a link", "lnk /l t", "l /l -> t"},
	{"apply: empty target", `lnk /l "" => EINVAL`, ""},
}

func rules(t *testing.T, open func(testing.TB) tree.Store) {
	store := open(t)
	defer share(t, store, "rules").check()
	for i, tt := range ruleCases {
		t.Run(tt.name, func(t *testing.T) {
			b := share(t, store, fmt.Sprint("rule", i))
			b.run(tt.script)
			if diff := cmp.Diff(lines(tt.want), b.listing()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("chain of links", func(t *testing.T) {
		b := newBench(t, open(t))
		b.run("write /0 x")
		script := &strings.Builder{}
		for i := range 41 {
			script.WriteString("symlink " + string(rune('0'+i)) + " /" + string(rune('0'+i+1)) + "\n")
		}
		b.run(script.String())
		for n, want := range map[int]string{40: "", 41: "ELOOP"} {
			if _, err := b.tree.Stat(t.Context(), "/"+string(rune('0'+n))); code(err) != want {
				t.Errorf("%d links: %v", n, err)
			}
		}
	})
	t.Run("names of trees", func(t *testing.T) {
		f := tree.New(open(t), tree.Config{})
		for name, want := range map[string]string{
			"default": "", "A_1": "", strings.Repeat("a", 64): "",
			"": "EINVAL", "1a": "EINVAL", "a-b": "EINVAL", "a;drop": "EINVAL", strings.Repeat("a", 65): "EINVAL",
		} {
			if _, err := f.Tree(t.Context(), name); code(err) != want {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
	t.Run("trees are apart", func(t *testing.T) {
		b := newBench(t, open(t))
		b.run("write /f x")
		other, err := b.forest.Tree(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Stat(t.Context(), "/f"); code(err) != "ENOENT" {
			t.Error(err)
		}
		if info, err := other.Info(t.Context()); err != nil || info != (tree.Info{Rev: 1, Dirs: 1}) {
			t.Error(info, err)
		}
		if info, err := b.tree.Info(t.Context()); err != nil || info != (tree.Info{Rev: 2, Dirs: 1, Files: 1, Bytes: 1}) {
			t.Error(info, err)
		}
	})
	t.Run("nothing is half done", func(t *testing.T) {
		b := newBench(t, open(t))
		_, err := b.tree.Update(t.Context(), func(e *tree.Edit) error {
			if err := e.Mkdir("/a/b", 0o755, true); err != nil {
				return err
			}
			if _, err := e.SetPeer(tree.Peer{ID: "p", Fetch: tree.At(7)}); err != nil {
				return err
			}
			return e.Remove("/nothing", false)
		})
		if code(err) != "ENOENT" || b.listing() != "" || b.rev() != 1 {
			t.Errorf("%v; revision %d of\n%s", err, b.rev(), b.listing())
		}
		if p, err := b.tree.Peer(t.Context(), "p"); err != nil || p != (tree.Peer{ID: "p"}) {
			t.Error(p, err)
		}
	})
}
