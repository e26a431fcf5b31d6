package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o755, "b/tool": 0o755, "c/tool": 0o644, "tool": 0o755, "a/plain": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "e/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, program, path string
		want                string
		err                 error
	}{
		{"first entry", "tool", dir + "/a:" + dir + "/b", dir + "/a/tool", nil},
		{"order", "tool", dir + "/b:" + dir + "/a", dir + "/b/tool", nil},
		{"trailing slash", "tool", dir + "/b/", dir + "/b/tool", nil},
		{"missing directory", "tool", "/gone:" + dir + "/a", dir + "/a/tool", nil},
		{"not executable is passed over", "tool", dir + "/c:" + dir + "/a", dir + "/a/tool", nil},
		{"a directory is passed over", "tool", dir + "/e:" + dir + "/a", dir + "/a/tool", nil},
		{"only one that is not executable", "tool", dir + "/c:/gone", "", syscall.EACCES},
		{"relative entry", "tool", "b", "b/tool", nil},
		{"empty entry", "tool", "/gone:", "./tool", nil},
		{"empty path", "tool", "", "./tool", nil},
		{"nowhere", "gone", dir + "/a", "", syscall.ENOENT},
		{"entry is a file", "tool", dir + "/tool", "", syscall.ENOENT},
		{"slash is not looked up", "./gone", dir, "./gone", nil},
		{"absolute", "/gone", dir, "/gone", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findProgram(tt.program, dir, []string{"PATH=" + tt.path})
			if got != tt.want || err != tt.err && !(err == syscall.ENOENT && tt.err == syscall.ENOENT) {
				t.Errorf("got %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
	if got, err := findProgram("sh", dir, nil); err != nil || !strings.HasSuffix(got, "/sh") {
		t.Errorf("without PATH: %q, %v", got, err)
	}
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: nil, file: syscall.ENOTDIR, dir + "/gone": syscall.ENOENT, file + "/x": syscall.ENOTDIR} {
		if err := checkDir(path); err != want {
			t.Errorf("checkDir(%s) = %v, want %v", path, err, want)
		}
	}
}

func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"":                        true,
		"echo hi\n":               true,
		"echo hi\n\x00\x01":       true, // a script with an archive behind it
		"\x7fELF\x02\x01\x01\x00": false,
		"x\x00y":                  false,
	} {
		if got := isText([]byte(text)); got != want {
			t.Errorf("isText(%q) = %v", text, got)
		}
	}
}

func TestBlameSize(t *testing.T) {
	long := strings.Repeat("x", maxArgBytes)
	for name, tt := range map[string]struct {
		argv, env []string
		want      string
	}{
		"argument": {[]string{"a", long}, nil, "argv[1] is too long: 131072 bytes, at most 131071"},
		"variable": {[]string{"a"}, []string{"A=1", "K=" + long}, `variable "K" is too long`},
		"all":      {[]string{"a", "b"}, []string{"C=d"}, "too long together: 8 bytes in 3 strings"},
	} {
		if got := blameSize(tt.argv, tt.env); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestShellOf(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\n# comment\nbroken:1\nann:x:1000:1000:Ann,,:/home/ann:/usr/bin/fish\nempty:x:7:7::/:\n"
	for uid, want := range map[int]string{0: "/bin/bash", 1000: "/usr/bin/fish", 7: "", 8: "", 1: ""} {
		if got := shellOf(strings.NewReader(passwd), uid); got != want {
			t.Errorf("shellOf(%d) = %q, want %q", uid, got, want)
		}
	}
}

func TestSystemText(t *testing.T) {
	if got := systemText(syscall.ENOENT); got != "No such file or directory (os error 2)" {
		t.Errorf("got %q", got)
	}
}
