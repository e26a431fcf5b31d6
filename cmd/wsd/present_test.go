package main

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
)

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		want string
	}{
		{[]string{"ls", "-l", "/a/b.c"}, "ls -l /a/b.c"},
		{[]string{"sh", "-c", "echo $HOME | cat"}, "sh -c 'echo $HOME | cat'"},
		{[]string{"echo", "", "it's"}, `echo '' 'it'\''s'`},
		{[]string{"printf", "a\nb\x1b[2J"}, `printf "a\nb\x1b[2J"`},
		{[]string{strings.Repeat("é", 200)}, "'" + strings.Repeat("é", maxCommandLine-2) + "…"},
	} {
		if got := commandLine(tt.argv); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.argv, got, tt.want)
		}
	}
}

func TestModeText(t *testing.T) {
	for mode, want := range map[iofs.FileMode]string{
		0o640:                                  "-rw-r-----",
		iofs.ModeDir | 0o755:                   "drwxr-xr-x",
		iofs.ModeDir | iofs.ModeSticky | 0o777: "drwxrwxrwt",
		iofs.ModeSymlink | 0o777:               "lrwxrwxrwx",
		iofs.ModeIrregular | 0o600:             "?rw-------",
		iofs.ModeSetuid | 0o755:                "-rwsr-xr-x",
		iofs.ModeSetgid | 0o644:                "-rw-r-Sr--",
		iofs.ModeSetuid | iofs.ModeSetgid | iofs.ModeSticky: "---S--S--T",
	} {
		if got := modeText(mode); got != want {
			t.Errorf("%v: got %s, want %s", mode, got, want)
		}
	}
}

func TestPrintProcesses(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	code := 3
	started := func(ago time.Duration) int64 { return now.Add(-ago).UnixMilli() }
	pid, lost := 5, -1
	var list []psEntry
	for _, p := range []protocol.ProcessInfo{
		{ProcessID: "a-1", PID: 7, Argv: []string{"top"}, TTY: true, StartedAtMs: started(3 * time.Second)},
		{ProcessID: "a-2", PID: 1234567, Argv: []string{"make", "-j2"}, StartedAtMs: started(5 * time.Minute)},
		{ProcessID: "a-3", PID: 8, Argv: []string{"x"}, TTY: true, StartedAtMs: started(30 * time.Hour), Exited: true, ExitCode: &code},
		{ProcessID: "a-4", PID: 9, Argv: []string{"x"}, StartedAtMs: started(72 * time.Hour), Exited: true},
	} {
		list = append(list, processEntry(&p))
	}
	for _, r := range []protocol.ExecInfo{
		{ID: "r-1", PID: &pid, Command: "exec make\n\tall\x1b[2J", StartedAtMs: started(2 * time.Minute)},
		{ID: "r-2", Command: "exit 3", StartedAtMs: started(time.Minute), Exited: true, ExitCode: &code},
		{ID: "r-3", StartedAtMs: started(time.Minute), Exited: true, ExitCode: &lost},
	} {
		list = append(list, durableEntry(&r, "/workspace"))
	}
	var out bytes.Buffer
	err := printProcesses(&out, list, now)
	if err != nil {
		t.Fatal(err)
	}
	want := `ID   PID      AGE  STATE             COMMAND
a-1  7        3s   running tty       top
a-2  1234567  5m   running           make -j2
a-3  8        30h  exited 3          x
a-4  9        3d   exited            x
r-1  5        2m   running durable   exec make  all [2J
r-2  -        1m   exited 3 durable  exit 3
r-3  -        1m   exited durable    ` + `
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFindProcess(t *testing.T) {
	pids := []int{10, 11, 12, 13, 14}
	list := []psEntry{
		{ProcessID: "abc-1", PID: &pids[0], SessionID: "s"},
		{ProcessID: "abc-12", PID: &pids[1]},
		{ProcessID: "xyz-1", PID: &pids[2], Durable: true},
		{ProcessID: "dup", PID: &pids[3]},
		{ProcessID: "dup", PID: &pids[4]},
		{ProcessID: "run", Durable: true},
	}
	for id, want := range map[string]int{"abc-1": 0, "abc-12": 1, "x": 2, "11": 1, "14": 4, "ru": 5} {
		if p, err := findProcess(list, id); err != nil || p != &list[want] {
			t.Errorf("%s: %v, %v", id, p, err)
		}
	}
	for id, want := range map[string]string{"abc": "beginning of 2", "no": "no such process", "dup": "write the pid", "": "beginning of 6"} {
		if _, err := findProcess(list, id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestSignalName(t *testing.T) {
	for text, want := range map[string]string{"TERM": "SIGTERM", "sigkill": "SIGKILL", "Usr1": "SIGUSR1", "9": "9", "64": "64"} {
		if got, err := signalName(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-9", "65", "NOSUCH"} {
		_, err := signalName(text)
		if _, ok := errors.AsType[*usageError](err); !ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseCopy(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want copyJob
	}{
		{[]string{"a", ":b"}, copyJob{sources: []string{"a"}, dest: "b", destRemote: true}},
		{[]string{":a", ":/b/c", "."}, copyJob{sources: []string{"a", "/b/c"}, dest: ".", sourceRemote: true}},
		{[]string{"./:a", ":"}, copyJob{sources: []string{"./:a"}, dest: ".", destRemote: true}},
		{[]string{":a", ":d/"}, copyJob{sources: []string{"a"}, dest: "d/", destIsDir: true, sourceRemote: true, destRemote: true}},
	} {
		got, err := parseCopy(tt.args)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(copyJob{})); diff != "" {
			t.Errorf("%q: %s", tt.args, diff)
		}
	}
	for _, args := range [][]string{{"a", "b"}, {"a", ":b", ":c"}, {"", ":b"}, {":a", ""}} {
		_, err := parseCopy(args)
		if _, ok := errors.AsType[*usageError](err); !ok {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestSafeName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/"} {
		if safeName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"a", "...", "a\nb", "\xff", ".a"} {
		if err := safeName(name); err != nil {
			t.Error(err)
		}
	}
}

func TestRelativeTo(t *testing.T) {
	for _, tt := range []struct{ root, abs, found, want string }{
		{".", "/w", "/w/a/b", "a/b"},
		{"src", "/w/src", "/w/src/a", "src/a"},
		{"/w", "/w", "/w/a", "/w/a"},
		{"..", "/w", "/w/a", "../a"},
		{"/", "/", "/a", "/a"},
		{"f", "/w/f", "/w/f", "f"},
		{"src", "/w/src", "/elsewhere", "/elsewhere"},
	} {
		if got := relativeTo(tt.root, tt.abs, tt.found); got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for _, tt := range []struct {
		files, total int
		bytes, size  int64
		took         time.Duration
		want         string
	}{
		{0, 2, 0, 1000, 0, "[........................]   0%  0/2 files  0 B"},
		{1, 2, 500, 1000, 2 * time.Second, "[############............]  50%  1/2 files  500 B  250 B/s"},
		{2, 2, 3_000_000, 2_000_000, time.Second, "[########################] 100%  2/2 files  3.0 MB  3.0 MB/s"},
		{1, 4, 0, 0, 0, "[######..................]  25%  1/4 files  0 B"},
		{0, 0, 0, 0, 0, "[########################] 100%  0/0 files  0 B"},
	} {
		if got := progressLine(tt.files, tt.total, tt.bytes, tt.size, tt.took); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	for n, want := range map[int64]string{999: "999 B", 1000: "1.0 kB", 1_234_567: "1.2 MB", 5e9: "5.0 GB", 7e12: "7.0 TB", 9e15: "9.0 PB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// A message is not written into the line, and the line ends with the copy.
func TestProgressLeavesRoomForMessages(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.start(1, 10)
	p.draw()
	p.clear()
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Errorf("got %q", out.String())
	}
	_, _ = p.Write(make([]byte, 10))
	p.fileDone()
	p.draw()
	p.close()
	if !strings.HasSuffix(out.String(), "100%  1/1 files  10 B\x1b[K\n") {
		t.Errorf("got %q", out.String())
	}
}
