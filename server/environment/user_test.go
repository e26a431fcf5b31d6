package environment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindAccount(t *testing.T) {
	const file = "root:x:0:0:root:/root:/bin/bash\n\nbroken:line\n" +
		"ann:x:1000:1000:Ann,,,:/home/ann:/usr/bin/zsh\n" +
		"twin:x:1000:1000::/home/twin:/bin/sh\nnoshell:x:7:7::/home/n:\n"
	for _, tc := range []struct{ uid, home, shell string }{
		{"0", "/root", "/bin/bash"},
		{"1000", "/home/ann", "/usr/bin/zsh"}, // the first line counts, as in libc
		{"7", "/home/n", ""},
		{"42", "", ""},
	} {
		home, shell := findAccount(strings.NewReader(file), tc.uid)
		if home != tc.home || shell != tc.shell {
			t.Errorf("uid %s: %q %q, want %q %q", tc.uid, home, shell, tc.home, tc.shell)
		}
	}
}

func TestLoginShell(t *testing.T) {
	for _, tc := range []struct {
		name, passwd, env string
		exist             []string
		want              string
	}{
		{"password file first", "/bin/bash", "/bin/zsh", []string{"/bin/bash", "/bin/zsh"}, "/bin/bash"},
		{"SHELL without an entry", "", "/opt/zsh", []string{"/opt/zsh", "/bin/bash"}, "/opt/zsh"},
		{"shell not installed", "/bin/zsh", "", []string{"/bin/bash"}, "/bin/bash"},
		{"nologin", "/usr/sbin/nologin", "", []string{"/usr/sbin/nologin", "/usr/bin/bash"}, "/usr/bin/bash"},
		{"shell no client knows", "/usr/bin/fish", "", []string{"/usr/bin/fish", "/bin/sh"}, "/bin/sh"},
		{"relative SHELL", "", "bash", []string{"bash", "/bin/sh"}, "/bin/sh"},
		{"nothing there", "", "", nil, "/bin/sh"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := account{shell: tc.passwd, getenv: func(string) string { return tc.env }}
			a.executable = func(path string) bool {
				for _, p := range tc.exist {
					if p == path {
						return true
					}
				}
				return false
			}
			if got := a.loginShell(); got.Path != tc.want || got.Name != filepath.Base(tc.want) {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
		})
	}
}

func TestHomeDir(t *testing.T) {
	for _, tc := range []struct{ env, passwd, want string }{
		{"/e", "/p", "/e"}, {"", "/p", "/p"}, {"rel", "/p", "/p"}, {"", "", "/"},
	} {
		a := account{home: tc.passwd, getenv: func(string) string { return tc.env }}
		if got := a.homeDir(); got != tc.want {
			t.Errorf("HOME %q, entry %q: %q, want %q", tc.env, tc.passwd, got, tc.want)
		}
	}
}

func TestIsExecutable(t *testing.T) {
	dir := t.TempDir()
	plain, program := filepath.Join(dir, "plain"), filepath.Join(dir, "program")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{plain: false, program: true, dir: false, filepath.Join(dir, "none"): false} {
		if got := isExecutable(path); got != want {
			t.Errorf("isExecutable(%s) = %v", path, got)
		}
	}
}
