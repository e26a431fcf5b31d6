//go:build attack && linux

package attack

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// denied fails the test if one of paths can be read with box: by a command, or by fs/*.
func (s *server) denied(c *client.Client, box *protocol.Sandbox, kept string, paths ...string) {
	s.w.Helper()
	rc := s.raw()
	script := "grep -rs TOPSECRET " + s.w.dir
	for _, path := range paths {
		script += "; cat '" + path + "'; ln '" + path + "' stolen && cat stolen"
	}
	hidden(s.w, script, s.sh(c, box, script).text(), kept)
	for _, path := range paths {
		got, _ := readFile(rc, path, box)
		hidden(s.w, "fs/readFile "+path, got, kept)
	}
}

// sub is a path below the world's directory.
func (w *world) sub(rel string) string { return filepath.Join(w.dir, rel) }

func TestSH1DenySurvivesChmod(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		box := w.ww(w.dir, glob(w.sub("**/*.env")), at(w.sub("secret.txt"), protocol.AccessDeny), at(w.sub("later/key"), protocol.AccessDeny))
		paths := []string{w.sub(".env"), w.sub("sub/a.env"), w.sub("sub/deeper/b.env"), w.sub("secret.txt")}
		for _, p := range paths {
			w.write(p, kept, 0o644)
		}
		for i, mode := range []string{"1555", "1555", "1555", "1000", "7555", "0"} {
			for _, dir := range []string{"sub/deeper", "sub", "."}[i%3:][:1] {
				s.sh(c, box, "chmod "+mode+" "+w.sub(dir))
				if r := s.sh(c, box, "chmod 755 "+w.sub(dir)+" && touch "+w.sub(dir)+"/made"); r.code != 0 {
					w.Errorf("after chmod %s %s nothing can be written: %s", mode, dir, r.text())
				}
				s.denied(c, box, kept, paths...)
			}
		}
	})
}

// A directory of a mask's mode that is empty when a command starts is none for good.
func TestSH1EmptyDirectoryOfAMasksMode(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		box := w.ww(w.dir, at(w.sub("a/b/secret"), protocol.AccessDeny))
		s.sh(c, box, "mkdir a; chmod 1555 a")
		s.sh(c, box, "chmod 755 a; mkdir -p a/b; chmod 1555 a/b a")
		w.mkdir(w.sub("a/b"))
		w.write(w.sub("a/b/secret"), kept, 0o644)
		s.denied(c, box, kept, w.sub("a/b/secret"))
		s.sh(c, box, "chmod 755 a a/b; mv a/b a/c; mv a d")
		s.denied(c, box, kept, w.sub("a/b/secret"), w.sub("a/c/secret"), w.sub("d/b/secret"))
	})
}

func TestSH2DenySurvivesClosedDirectory(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		w.write(w.sub("sub/a.env"), kept, 0o644)
		w.write(w.sub("sub/in/b.env"), kept, 0o644)
		w.write(w.sub("sub/in/plain"), "plain", 0o644)
		w.write(w.sub("sub/in/secret"), kept, 0o644)
		box := w.ww(w.dir, glob(w.sub("**/*.env")), at(w.sub("sub/in/secret"), protocol.AccessDeny))
		for _, mode := range []string{"000", "300", "600", "200", "1111"} {
			s.sh(c, box, "chmod "+mode+" sub/in sub")
			info, err := os.Stat(w.sub("sub"))
			if err != nil {
				w.Fatal(err)
			}
			r := s.sh(c, box, "chmod 700 sub sub/in; cat sub/a.env sub/in/b.env sub/in/secret sub/in/plain")
			hidden(w, "chmod "+mode, r.text(), kept)
			if !strings.Contains(r.stdout, "plain") {
				w.Errorf("after chmod %s what is not denied cannot be had again: %s", mode, r.text())
			}
			if want, _ := strconv.ParseUint(mode, 8, 32); uint64(info.Mode().Perm()) != want&0o777 {
				w.Errorf("mode is %v after chmod %s", info.Mode(), mode)
			}
			s.denied(c, box, kept, w.sub("sub/a.env"), w.sub("sub/in/b.env"), w.sub("sub/in/secret"))
		}
	})
}

// A directory that can be listed, but not entered, hides nothing that is below it.
func TestSH2DirectoryThatCannotBeEntered(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		w.write(w.sub("sub/in/deep/b.env"), kept, 0o644)
		w.write(w.sub("sub/in/plain"), "plain", 0o644)
		w.write(w.sub("first.env"), kept, 0o644)
		w.mkdir(w.sub("sub/in/links"))
		if err := os.Link(w.sub("first.env"), w.sub("sub/in/links/third")); err != nil {
			w.Fatal(err)
		}
		box := w.ww(w.dir, glob(w.sub("**/*.env")))
		for _, close := range []string{"chmod 600 sub", "chmod 400 sub/in sub", "chmod 000 sub/in; chmod 400 sub", "chmod 600 sub/in/deep sub/in/links sub/in sub ."} {
			s.sh(c, box, close)
			r := s.sh(c, box, "cd /; chmod 700 "+w.dir+"; cd "+w.dir+"; chmod 700 sub; chmod 700 sub/in; chmod 700 sub/in/*; cat sub/in/deep/b.env sub/in/links/third sub/in/plain")
			hidden(w, close, r.text(), kept)
			if !strings.Contains(r.stdout, "plain") {
				w.Errorf("after %s what is not denied cannot be had again: %s", close, r.text())
			}
		}
	})
}

// The working directory can be closed, and the next command can open it.
func TestSH2ClosedWorkingDirectory(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		w.write(w.sub(".env"), kept, 0o644)
		box := w.ww(w.dir, glob(w.sub("**/*.env")))
		for _, mode := range []string{"000", "1555", "400"} {
			s.sh(c, box, "chmod "+mode+" .")
			if r := s.sh(c, box, "chmod 700 "+w.dir+" && mkdir made && rmdir made"); r.code != 0 {
				w.Errorf("after chmod %s: %s", mode, r.text())
			}
			if r := s.sh(c, box, "chmod "+mode+" .; mkdir .git"); r.code == 0 {
				w.Error(".git was made")
			}
			if r := s.sh(c, box, "chmod 700 "+w.dir+"; mkdir .git"); r.code == 0 {
				w.Errorf("after chmod %s .git can be made", mode)
			}
			s.denied(c, box, kept, w.sub(".env"))
		}
	})
}

func TestSH3DenySurvivesMovedParent(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		for _, p := range []string{"sub/secret.txt", "deep/er/secret.txt", "keys/id.key", "p/q/id.pem", "x/a.env"} {
			w.write(w.sub(p), kept, 0o644)
		}
		w.mkdir(w.sub("free"))
		box := w.ww(w.dir, at(w.sub("sub/secret.txt"), protocol.AccessDeny), at(w.sub("deep/er/secret.txt"), protocol.AccessDeny),
			glob(w.sub("keys/*.key")), glob(w.sub("p/*/*.pem")), glob(w.sub("x/**/*.env")), at(w.sub("deep/er/later"), protocol.AccessDeny))
		for _, script := range []string{
			"mv sub sub2; mv deep deep2; mv deep/er deep/er2; mv keys k2; mv p p2; mv p/q q; mv x x2",
			"mv -T free sub; mv keys free/; mv p/q free/; mv x free/",
			"rm -rf sub keys p x; ln -s free sub; ln -s free keys; ln -s free p",
			"mv sub/secret.txt s; mv keys/id.key keys/id; ln keys/id.key free/id; cp keys/id.key free/",
		} {
			s.sh(c, box, script)
			r := s.sh(c, box, "find . -type f | while read f; do cat \"$f\"; done")
			hidden(w, script, r.text(), kept)
		}
		for _, p := range []string{"sub/secret.txt", "keys/id.key", "p/q/id.pem", "x/a.env", "deep/er/secret.txt"} {
			s.denied(c, box, kept, w.sub(p))
			if got, err := os.ReadFile(w.sub(p)); err != nil || string(got) != kept {
				w.Errorf("%s is not where it was: %v", p, err)
			}
		}
	})
}

// A name that a command has given a file before it became a secret is denied as well.
func TestSH3DenySurvivesLinks(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		box := w.ww(w.dir, glob(w.sub("**/*.env")))
		s.sh(c, box, "echo 1 >plain; ln plain hard.env; mkdir d; ln plain d/third; echo 2 >target; ln -s target soft.env; ln -s soft.env more.env; ln -s mid end.env; ln -s far mid; echo 3 >far")
		kept := secret()
		for _, name := range []string{"hard.env", "soft.env", "end.env"} {
			f, err := os.OpenFile(w.sub(name), os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				w.Fatal(err)
			}
			if _, err := f.WriteString(kept); err != nil {
				w.Fatal(err)
			}
			_ = f.Close()
		}
		paths := []string{w.sub("plain"), w.sub("hard.env"), w.sub("d/third"), w.sub("target"), w.sub("soft.env"), w.sub("far"), w.sub("end.env")}
		s.denied(c, box, kept, paths...)
		s.sh(c, box, "rm -f hard.env soft.env more.env end.env mid; mv soft.env x; mv mid y; mv d d2; mv plain p2")
		s.denied(c, box, kept, append(paths, w.sub("p2"), w.sub("d2/third"), w.sub("y"), w.sub("x"))...)
	})
}

// The same for what a command has put into a directory before it gave it a name that is
// denied.
func TestSH3DenySurvivesLinksInDirectories(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		box := w.ww(w.dir, glob(w.sub("*/private")), glob(w.sub("**/*.env")))
		s.sh(c, box, "echo 1 >plain; mkdir -p q/sub d e/f.env; ln plain q/sub/key; ln plain d/third; echo 2 >other; ln other e/f.env/key; mv q d/private; chmod 000 d/private/sub")
		if err := os.Chmod(w.sub("d/private/sub"), 0o700); err != nil {
			w.Fatal(err)
		}
		kept := secret()
		for _, name := range []string{"d/private/sub/key", "e/f.env/key"} {
			f, err := os.OpenFile(w.sub(name), os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				w.Fatal(err)
			}
			if _, err := f.WriteString(kept); err != nil {
				w.Fatal(err)
			}
			_ = f.Close()
		}
		if err := os.Chmod(w.sub("d/private/sub"), 0); err != nil {
			w.Fatal(err)
		}
		paths := []string{w.sub("plain"), w.sub("other"), w.sub("d/third"), w.sub("d/private/sub/key"), w.sub("e/f.env/key")}
		s.denied(c, box, kept, paths...)
		s.sh(c, box, "mv plain p2; mv other o2; mv d/third t2; mv d d2; mv e e2")
		s.denied(c, box, kept, append(paths, w.sub("p2"), w.sub("o2"), w.sub("t2"))...)
	})
}

// A workspace has two names: its own and the mount point, where commands see it if the
// server may make mount namespaces. A rule by one of the names holds for the other, too.
func TestSH3DenySurvivesMounts(t *testing.T) {
	each(t, func(w *world) {
		token, kept, point := secret(), secret(), filepath.Join(w.home, "point")
		w.mkdir(point)
		w.write(w.sub("T"), token, 0o600)
		w.write(w.sub("sub/a.env"), kept, 0o644)
		w.write(w.sub("sub/secret"), kept, 0o644)
		w.write(w.sub("sub/fine"), "fine", 0o644)
		w.write(w.sub(".git/config"), "mine", 0o644)
		s := w.serve(nil, "--workspace", w.dir, "--mount-point", point, "--store", filepath.Join(w.home, "s.db"), "--ws-auth", "capability-token", "--ws-token-file", w.sub("T"))
		c := s.dial(&client.Options{BearerToken: token})
		rc, err := raw.Dial(w.Context(), s.Addr, raw.Config{Header: http.Header{"Authorization": {"Bearer " + token}}})
		if err == nil {
			_, err = rc.Initialize("")
		}
		if err != nil {
			w.Fatal(err)
		}
		defer rc.Close()
		for _, named := range []string{w.dir, point} {
			box := w.policy(root(protocol.AccessRead), at(filepath.Dir(w.dir), protocol.AccessWrite), at(w.home, protocol.AccessWrite), at(named, protocol.AccessWrite),
				glob(named+"/**/*.env"), at(named+"/sub/secret", protocol.AccessDeny))
			for _, dir := range []string{w.dir, point} {
				script := "cd " + dir + " && cat sub/fine; cat sub/a.env sub/secret T; ln sub/secret l; cat l; mv sub sub2; mv T T2; cat sub2/* T2; echo theirs >.git/config; mv .git git2; mkdir .aws .codex; chmod 755 .aws; touch .aws/x"
				r, err := c.Run(w.Context(), client.Command{Argv: []string{"sh", "-c", script}, Dir: point, Sandbox: box}, nil)
				if err != nil {
					w.Fatal(err)
				}
				text := string(r.Stdout) + string(r.Stderr)
				if dir == w.dir && !strings.HasPrefix(text, "fine") {
					w.Errorf("%s by %s: %s", named, dir, text)
				}
				hidden(w, named+" by "+dir, text, kept)
				hidden(w, named+" by "+dir, text, token)
				w.is(w.sub(".git/config"), "mine")
				w.is(w.sub("sub/secret"), kept)
				w.gone(w.sub(".aws/x"))
			}
			for _, name := range []string{"sub/secret", "sub/a.env", "T"} {
				for how, got := range w.fileTries(rc, w.sub(name), box) {
					hidden(w, named+": "+how+" of "+name, got, kept)
					hidden(w, named+": "+how+" of "+name, got, token)
				}
			}
		}
	})
}

func TestSM6WritableRootReplacedByLink(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		outside := filepath.Join(w.home, "outside")
		w.mkdir(outside)
		w.mkdir(w.sub("sub/in"))
		w.mkdir(w.sub("kept"))
		for _, script := range []string{
			"rm -r sub; ln -s " + outside + " sub",
			"rm -r sub; ln -s kept/l sub; ln -s " + outside + " kept/l",
			"rm -r sub; mkdir sub; ln -s " + outside + " sub/in",
		} {
			s.sh(c, w.ww(w.dir), script)
			for _, root := range []string{"sub", "sub/in", "kept/l"} {
				for _, box := range []*protocol.Sandbox{w.ww(w.sub(root)), w.ww(w.dir, at(w.sub(root), protocol.AccessWrite))} {
					_, _ = s.run(c, box, "touch", filepath.Join(outside, "x"), filepath.Join(outside, "in/x"), w.sub(root)+"/x")
					_ = rc.Call("fs/writeFile", map[string]any{"path": "file://" + w.sub(root) + "/y", "dataBase64": "", "sandbox": box}, nil)
				}
			}
			if made, _ := os.ReadDir(outside); len(made) > 0 {
				w.Fatalf("%s: %v was written outside", script, made)
			}
			if r := s.sh(c, w.ww(w.dir, at(w.sub("sub"), protocol.AccessWrite)), "echo runs"); r.stdout != "runs\n" {
				w.Errorf("%s: the next command does not run: %+v", script, r)
			}
		}
	})
}

func TestSL4BracesInDenyPatterns(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		kept := secret()
		w.write(w.sub("a.env"), kept, 0o644)
		w.write(w.sub(strings.Repeat("a", 40)), "x", 0o644)
		for _, n := range []int{18, 22, 40} {
			_, err := s.run(c, w.ww(w.dir, glob(w.sub(strings.Repeat("{a*,a*}", n)+"b"))), "true")
			if err == nil || !strings.Contains(err.Error(), "alternatives") {
				w.Errorf("%d braces: %v", n, err)
			}
		}
		box := w.ww(w.dir, glob(w.sub("{*.{env,key},**/x{1,2}/*.pem}")))
		w.write(w.sub("q/x2/id.pem"), kept, 0o644)
		s.denied(c, box, kept, w.sub("a.env"), w.sub("q/x2/id.pem"))
	})
}

// Nothing that a command makes keeps the next from running, nor shows what is denied.
func TestSL5NoLockOut(t *testing.T) {
	deep := "set -- " + w20 + "; n=0; while [ $n -lt 400 ]; do mkdir $1; cd -P $1; n=$((n+1)); done; echo made >made.env"
	many := "seq -f %g.env 1 4200 | xargs touch"
	if !testing.Short() {
		many = "seq -f %g.env 1 9000 | xargs touch" // more than are denied one by one
	}
	for name, script := range map[string]string{
		"nested directories": "n=0; while [ $n -lt 200 ]; do mkdir d; cd d; n=$((n+1)); done; echo made >made.env",
		"a long path":        deep,
		"many files":         "mkdir many; cd many; " + many,
		"many files here":    many,
		"a link to all":      "ln -s / all.env; ln -s . here.env; ln -s .. up.env; ln -s /bin bin.env; ln -s /usr/bin/sh sh.env; ln -s " + program + " p.env",
		"links in circles":   "ln -s loop.env loop.env; ln -s b.env a.env; ln -s a.env b.env; ln -s nowhere n.env",
		"links to proc":      "ln -s /proc/self/environ e.env; ln -s /proc/self/root r.env; ln -s /dev/null null.env; ln -s /proc p.env",
		"odd names":          "mkdir '[x]' '{a,b}' '*' 'new\nline'; touch '[x]/a.env' '{a,b}/b.env' '*/*.env' 'new\nline/.env'",
		"other kinds":        "mkfifo fifo.env; mkdir dir.env; touch dir.env/x",
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				s := w.serve(nil)
				c, rc := s.dial(nil), s.raw()
				kept := secret()
				w.write(w.sub("kept/x.env"), kept, 0o644)
				w.write(w.sub("kept/plain"), "plain", 0o644)
				box := w.ww(w.dir, glob(w.sub("**/*.env")))
				s.sh(c, box, script)
				r := s.sh(c, box, "cat kept/plain && mkdir kept/made && rmdir kept/made")
				if r.code != 0 || r.stdout != "plain" {
					w.Errorf("the next command: %+v", r)
				}
				r = s.sh(c, box, "cat kept/x.env; grep -rs made .")
				hidden(w, "cat", r.text(), kept)
				if strings.Contains(r.text(), ":made") {
					w.Errorf("what a command has made can be read by the next: %s", r.text())
				}
				if got, err := readFile(rc, w.sub("kept/plain"), box); err != nil || got != "plain" {
					w.Errorf("fs/readFile: %q, %v", got, err)
				}
				for _, box := range []*protocol.Sandbox{nil, box} {
					err := rc.Call("fs/watch", map[string]any{"path": "file://" + w.dir, "watchId": "w" + strconv.FormatBool(box == nil), "sandbox": box}, nil)
					if err != nil {
						w.Errorf("fs/watch: %v", err)
					}
				}
			})
		})
	}
}

// Links in circles, and long ones, in the place of what the policy lets be written keep no
// command from running.
func TestSL5CirclesInRules(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		w.write(w.sub("plain"), "plain", 0o644)
		w.mkdir(w.sub("s/t"))
		box := w.ww(w.dir, at(w.sub("s"), protocol.AccessWrite), at(w.sub("s/t"), protocol.AccessWrite), at(w.sub("new/x"), protocol.AccessWrite), at(w.sub("kept"), protocol.AccessDeny))
		for _, script := range []string{
			"ln -s new new", "rm -rf s; ln -s s s", "rm -f s; mkdir s; ln -s u s/t; ln -s t s/u", "rm -f new; mkdir new; ln -s /proc/self/root new/x; ln -s ../kept s/v",
		} {
			s.sh(c, box, script)
			if r := s.sh(c, box, "cat plain && mkdir made && rmdir made"); r.code != 0 || r.stdout != "plain" {
				w.Errorf("after %s: %+v", script, r)
			}
			if got, err := readFile(rc, w.sub("plain"), box); err != nil || got != "plain" {
				w.Errorf("after %s: fs/readFile: %q, %v", script, got, err)
			}
		}
	})
}

// w20 is a name that makes a path long soon.
const w20 = "xxxxxxxxxxxxxxxxxxxx"

// A helper of fs/* knows what is denied when it is asked, however long it lives.
func TestSL12HelperKeepsUp(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		w.write(w.sub("plain"), "plain", 0o644)
		w.mkdir(w.sub("sub"))
		box := w.ww(w.dir, glob(w.sub("**/*.env")), at(w.sub("later"), protocol.AccessDeny))
		if err := rc.Call("fs/watch", map[string]any{"path": "file://" + w.dir, "watchId": "w", "sandbox": box}, nil); err != nil {
			w.Fatal(err)
		}
		if err := rc.Call("fs/open", map[string]any{"path": "file://" + w.sub("plain"), "handleId": "h", "sandbox": box}, nil); err != nil {
			w.Fatal(err)
		}
		for i := range 5 {
			kept := secret()
			made := w.sub("sub/" + strconv.Itoa(i) + ".env")
			w.write(made, kept, 0o644)
			if got, err := readFile(rc, made, box); err == nil {
				w.Errorf("fs/readFile of a new file: %q", got)
			}
			if got, err := readFile(rc, w.sub("plain"), box); err != nil || got != "plain" {
				w.Errorf("fs/readFile: %q, %v", got, err)
			}
			s.denied(c, box, kept, made)
			s.sh(c, w.ww(w.dir), "mv sub/"+strconv.Itoa(i)+".env sub/x; mv sub/x sub/"+strconv.Itoa(i)+"b.env")
			if got, err := readFile(rc, w.sub("sub/"+strconv.Itoa(i)+"b.env"), box); err == nil {
				w.Errorf("fs/readFile of a file that was moved: %q", got)
			}
		}
		var block struct{ Chunk string }
		if err := rc.Call("fs/readBlock", map[string]any{"handleId": "h", "offset": 0, "len": 10}, &block); err != nil {
			w.Errorf("a stream of a helper that was replaced: %v", err)
		}
	})
}
