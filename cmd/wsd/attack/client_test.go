//go:build attack && linux

package attack

import (
	"os"
	"path/filepath"
	"strings"
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
