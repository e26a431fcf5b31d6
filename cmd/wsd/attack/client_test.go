//go:build attack && linux

package attack

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cli runs wsd with args as the world's user in its directory, with the server s.
func (s *server) cli(args ...string) result {
	s.w.Helper()
	cmd := s.w.command(args...)
	cmd.Env = append(cmd.Env, "WSD_URL="+s.URL)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its status is in the state
	return result{stdout: out.String(), stderr: errs.String(), code: cmd.ProcessState.ExitCode()}
}

// dirs makes directories of the world's user, one in the other.
func (w *world) dirs(top string, names ...string) {
	w.Helper()
	w.mkdir(top)
	for _, name := range names {
		top = filepath.Join(top, name)
		w.mkdir(top)
	}
}

// link makes a symbolic link of the world's user, and the directory that it needs.
func (w *world) link(target, path string) {
	w.Helper()
	w.mkdir(filepath.Dir(path))
	if err := os.Symlink(target, path); err != nil {
		w.Fatal(err)
	}
}

// is fails the test unless a file has a content.
func (w *world) is(path, want string) {
	w.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		w.Errorf("%s: %q, %v, want %q", path, got, err, want)
	}
}

// A server that lists links in one copy and directories of the same names in the next
// writes nothing outside of the destination.
func TestSH7CopyFollowsNoLink(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve([]string{"LANG=C"})
		srv, ssh, rc := filepath.Join(w.dir, "srv"), filepath.Join(w.home, ".ssh"), filepath.Join(w.home, ".bashrc")
		w.write(filepath.Join(ssh, "authorized_keys"), "mine", 0o600)
		w.write(rc, "mine", 0o600)
		w.dirs(srv, "inner")
		w.link(ssh, filepath.Join(srv, "conf"))
		w.link(rc, filepath.Join(srv, "notes.txt"))
		w.link("inner", filepath.Join(srv, "within"))
		w.write(filepath.Join(srv, "inner", "kept"), "kept", 0o644)
		if r := s.cli("cp", "-r", ":"+srv, "copy"); r.code != 0 {
			w.Fatalf("the first copy: %+v", r)
		}
		if target, err := os.Readlink(filepath.Join(w.dir, "copy", "conf")); err != nil || target != ssh {
			w.Fatalf("conf: %q, %v", target, err)
		}
		if err := os.RemoveAll(srv); err != nil {
			w.Fatal(err)
		}
		w.dirs(srv, "conf", "deep")
		w.write(filepath.Join(srv, "conf", "authorized_keys"), "theirs", 0o644)
		w.write(filepath.Join(srv, "conf", "deep", "new"), "theirs", 0o644)
		w.write(filepath.Join(srv, "notes.txt"), "theirs", 0o644)
		w.write(filepath.Join(srv, "within", "kept"), "theirs", 0o644)
		if err := os.Chmod(filepath.Join(srv, "conf"), 0o777); err != nil {
			w.Fatal(err)
		}
		r := s.cli("cp", "-r", ":"+srv+"/.", "copy")
		w.is(filepath.Join(ssh, "authorized_keys"), "mine")
		w.is(rc, "mine")
		w.is(filepath.Join(w.dir, "copy", "inner", "kept"), "kept")
		if _, err := os.Lstat(filepath.Join(ssh, "deep")); err == nil {
			w.Errorf("a directory was made in %s", ssh)
		}
		if info, err := os.Stat(ssh); err != nil || info.Mode().Perm() != 0o700 {
			w.Errorf("the mode of %s is %v, %v", ssh, info.Mode(), err)
		}
		// What the server lists is in the copy all the same.
		for _, name := range []string{"conf/authorized_keys", "conf/deep/new", "notes.txt", "within/kept"} {
			w.is(filepath.Join(w.dir, "copy", name), "theirs")
		}
		if r.code != 0 {
			w.Errorf("the second copy: %+v", r)
		}
	})
}

// A link that is named as the destination itself is the user's, and followed.
func TestSH7DestinationMayBeLink(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		w.write(filepath.Join(w.dir, "srv", "f"), "theirs", 0o644)
		w.write(filepath.Join(w.dir, "real", "f"), "mine", 0o600)
		w.link("real", filepath.Join(w.dir, "dest"))
		w.link("real/f", filepath.Join(w.dir, "one"))
		w.link("real/f", filepath.Join(w.dir, "into", "f"))
		for _, args := range [][]string{{":srv/.", "dest"}, {":srv/f", "one"}} {
			w.write(filepath.Join(w.dir, "real", "f"), "mine", 0o600)
			if r := s.cli(append([]string{"cp"}, args...)...); r.code != 0 {
				w.Errorf("%v: %+v", args, r)
			}
			w.is(filepath.Join(w.dir, "real", "f"), "theirs")
		}
		w.write(filepath.Join(w.dir, "real", "f"), "mine", 0o600)
		if r := s.cli("cp", ":srv/f", "into"); r.code != 0 {
			w.Errorf("into a directory: %+v", r)
		}
		w.is(filepath.Join(w.dir, "real", "f"), "mine")
		w.is(filepath.Join(w.dir, "into", "f"), "theirs")
	})
}

// mode fails the test unless a path has a mode, with the bits 07000.
func (w *world) mode(path string, want uint32) {
	w.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil || st.Mode&0o7777 != want {
		w.Errorf("%s: mode %o, %v, want %o", path, st.Mode&0o7777, err, want)
	}
}

// gone fails the test if there is something at a path.
func (w *world) gone(path string) {
	w.Helper()
	if _, err := os.Lstat(path); err == nil {
		w.Errorf("%s is there", path)
	}
}

// A command at the server brings neither code nor set-user-ID bits to the client, and
// nothing that the client does not have is undone at the server. It comes over when asked.
func TestSH8SyncBringsNoCode(t *testing.T) {
	for _, wire := range []string{"ws", "http"} {
		t.Run(wire, func(t *testing.T) { each(t, func(w *world) { bringsNoCode(w, wire) }) })
	}
}

func bringsNoCode(w *world, wire string) {
	here, there := filepath.Join(w.dir, "here"), filepath.Join(w.dir, "there")
	w.dirs(here, ".git", "hooks")
	w.mkdir(there)
	w.write(filepath.Join(here, ".git", "config"), "mine", 0o644)
	w.write(filepath.Join(here, "own"), "mine", 0o755)
	s := w.serve([]string{"XDG_STATE_HOME=" + filepath.Join(w.home, "server")}, "--workspace", there)
	sync := func(more ...string) result {
		w.Helper()
		url := s.URL
		if wire == "http" {
			url = "http://" + s.Addr
		}
		r := s.cli(append([]string{"sync", here, url}, more...)...)
		if r.code != 0 {
			w.Fatalf("sync %v: %+v", more, r)
		}
		return r
	}
	sync()
	const evil = `echo theirs >.git/config; echo theirs >.git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; mkdir -p sub .vscode
		echo theirs >.envrc; echo theirs >.vscode/tasks.json; echo "gitdir: ../evil" >sub/.git; echo theirs >sh; chmod 4755 sh
		echo theirs >fine; echo theirs >own; chmod 6755 own; mkdir shared; chmod 2775 shared`
	var r result
	if wire == "ws" {
		r = s.cli("exec", "--sync", "--dir", here, "--", "sh", "-c", evil)
		if r.code != 0 {
			w.Fatalf("exec --sync: %+v", r)
		}
	} else {
		if r := s.sh(s.dial(nil), nil, "cd there; "+evil); r.code != 0 {
			w.Fatalf("%+v", r)
		}
		r = sync()
	}
	named := []string{".envrc", ".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json", "own", "sh", "shared", "sub/.git"}
	for _, name := range named {
		if !strings.Contains(r.stderr, "withheld: "+name+": ") {
			w.Errorf("%s is not named: %+v", name, r)
		}
	}
	safe := func() {
		w.Helper()
		w.is(filepath.Join(here, ".git", "config"), "mine")
		for _, name := range []string{".git/hooks/pre-commit", ".envrc", ".vscode/tasks.json", "sub/.git"} {
			w.gone(filepath.Join(here, name))
			if _, err := os.Lstat(filepath.Join(there, name)); err != nil {
				w.Errorf("the server has lost %s: %v", name, err)
			}
		}
		w.is(filepath.Join(here, "fine"), "theirs\n")
		w.mode(filepath.Join(here, "sh"), 0o755)
		w.mode(filepath.Join(there, "sh"), 0o4755)
		w.mode(filepath.Join(here, "own"), 0o755)
		w.mode(filepath.Join(there, "own"), 0o6755)
		w.mode(filepath.Join(here, "shared"), 0o775)
		w.mode(filepath.Join(there, "shared"), 0o2775)
		w.is(filepath.Join(there, ".git", "config"), "theirs\n")
	}
	safe()
	if r := sync(); strings.Contains(r.stderr, "withheld") {
		w.Errorf("it is named again: %+v", r)
	}
	safe()
	// What is changed here is sent, also where something is withheld.
	w.write(filepath.Join(here, "fine"), "mine", 0o644)
	w.write(filepath.Join(here, "sh"), "mine", 0o755)
	w.write(filepath.Join(here, ".git", "config"), "new", 0o644)
	sync()
	w.is(filepath.Join(there, "fine"), "mine")
	w.is(filepath.Join(there, "sh"), "mine")
	w.mode(filepath.Join(there, "sh"), 0o4755)
	w.is(filepath.Join(there, ".git", "config"), "new")
	if err := os.Remove(filepath.Join(here, "fine")); err != nil {
		w.Fatal(err)
	}
	if r := sync("--json"); strings.Contains(r.stdout, `"type":"withheld"`) || !strings.Contains(r.stdout, `"withheld":0`) {
		w.Errorf("--json: %+v", r)
	}
	w.write(filepath.Join(there, ".envrc"), "again", 0o644)
	if r := sync("--json"); !strings.Contains(r.stdout, `{"type":"withheld","path":".envrc","kind":"file","why":"code"}`) {
		w.Errorf("--json: %+v", r)
	}
	sync("--allow-code")
	w.is(filepath.Join(here, ".envrc"), "again")
	w.is(filepath.Join(here, ".git", "hooks", "pre-commit"), "theirs\n")
	w.is(filepath.Join(here, "sub", ".git"), "gitdir: ../evil\n")
	w.mode(filepath.Join(here, "sh"), 0o755)
	sync("--allow-setuid")
	w.mode(filepath.Join(here, "sh"), 0o4755)
	w.mode(filepath.Join(here, "own"), 0o6755)
	w.mode(filepath.Join(here, "shared"), 0o2775)
}

// The same for copies.
func TestSH8CopyBringsNoCode(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		w.dirs(filepath.Join(w.dir, "srv"), ".git", "hooks")
		w.dirs(filepath.Join(w.dir, "repo"), ".git", "hooks")
		script := `cd srv; echo theirs >.git/config; echo theirs >.git/hooks/pre-commit; echo theirs >.git/index; echo theirs >.envrc
			echo theirs >sh; chmod 6755 sh; mkdir d; chmod 2775 d; mkdir x; ln -s ../evil x/.git; mkdir -p plain/hooks; echo theirs >plain/hooks/pre-push`
		if r := s.sh(s.dial(nil), nil, script); r.code != 0 {
			w.Fatalf("%+v", r)
		}
		r := s.cli("cp", "-r", ":srv", "copy")
		if r.code != 0 {
			w.Errorf("%+v", r)
		}
		copied := filepath.Join(w.dir, "copy")
		for _, name := range []string{".git/config", ".git/hooks", ".envrc", "x/.git"} {
			w.gone(filepath.Join(copied, name))
			if !strings.Contains(r.stderr, "withheld: copy/"+name+": ") {
				w.Errorf("%s is not named: %+v", name, r)
			}
		}
		w.is(filepath.Join(copied, ".git", "index"), "theirs\n")
		w.mode(filepath.Join(copied, "sh"), 0o755)
		w.mode(filepath.Join(copied, "d"), 0o775)
		// A directory that is copied into a repository's own is judged as what it is there.
		if r := s.cli("cp", "-r", ":srv/plain/.", "repo/.git"); r.code != 0 {
			w.Errorf("%+v", r)
		}
		w.gone(filepath.Join(w.dir, "repo", ".git", "hooks", "pre-push"))
		// What the user names comes over.
		if r := s.cli("cp", ":srv/.envrc", "repo/"); r.code != 0 {
			w.Errorf("%+v", r)
		}
		w.is(filepath.Join(w.dir, "repo", ".envrc"), "theirs\n")
		if r := s.cli("cp", "-r", "--allow-code", "--allow-setuid", ":srv/.", "copy"); r.code != 0 || r.stderr != "" {
			w.Errorf("%+v", r)
		}
		w.is(filepath.Join(copied, ".git", "hooks", "pre-commit"), "theirs\n")
		w.mode(filepath.Join(copied, "sh"), 0o6755)
		w.mode(filepath.Join(copied, "d"), 0o2775)
	})
}
