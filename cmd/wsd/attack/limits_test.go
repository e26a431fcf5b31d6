//go:build attack && linux

package attack

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

func ptr(n uint64) *uint64 { return &n }

// limited starts script under limits.
func (s *server) limited(c *client.Client, sandbox *protocol.Sandbox, limits protocol.ProcessLimits, script string) *client.Process {
	s.w.Helper()
	p, err := c.Start(s.w.Context(), client.Command{Argv: []string{"sh", "-c", script}, Dir: s.w.dir, Sandbox: sandbox, Limits: &limits})
	if err != nil {
		s.w.Fatal(err)
	}
	return p
}

// end returns how a process ended and what it printed on its standard output.
func (s *server) end(p *client.Process) (client.ExitStatus, string) {
	s.w.Helper()
	_ = p.Stderr.Close()
	text, err := io.ReadAll(p.Stdout)
	if err != nil {
		s.w.Fatal(err)
	}
	status, err := p.Wait(s.w.Context())
	if err != nil {
		s.w.Fatal(err)
	}
	return status, string(text)
}

// alive counts the processes whose command line has word in it.
func alive(word string) int {
	n := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), word) {
			n++
		}
	}
	return n
}

// bomb is a script that becomes ever more processes, all with word in their command
// lines. It stops by itself at a size that harms no machine, should nothing end it.
func bomb(word string) string {
	return fmt.Sprintf(`b() { [ "$1" -gt 7 ] || { b $(($1+1)) & b $(($1+1)) & }; : %s; sleep 600; }; b 0`, word)
}

// memoryHog is a program that takes n MiB of memory.
func memoryHog(n int) string { return fmt.Sprintf("%s %s 'hog %d'", tool, toolWord, n) }

// Each limit ends a command with all that it has started, and the command's end says
// which it was.
func TestItem6LimitsEndCommands(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		word := "wsd-bomb-" + filepath.Base(filepath.Dir(w.home))
		mib := func(n uint64) *uint64 { return ptr(n << 20) }
		for _, tt := range []struct {
			name   string
			limits protocol.ProcessLimits
			script string
			want   string
		}{
			{"fork bomb", protocol.ProcessLimits{Processes: ptr(20)}, bomb(word), protocol.LimitProcesses},
			{"bomb in a session of its own", protocol.ProcessLimits{Processes: ptr(20)}, "setsid sh -c '" + bomb(word) + "' & sleep 600", protocol.LimitProcesses},
			{"threads", protocol.ProcessLimits{Processes: ptr(20)}, tool + " " + toolWord + " 'manythreads 60'", protocol.LimitProcesses},
			{"memory", protocol.ProcessLimits{MemoryBytes: mib(64)}, "exec " + memoryHog(400), protocol.LimitMemory},
			{"memory of several", protocol.ProcessLimits{MemoryBytes: mib(100)}, "for i in 1 2 3 4 5; do (" + memoryHog(50) + ") & done; sleep 600", protocol.LimitMemory},
			{"cpu", protocol.ProcessLimits{CPUMs: ptr(300)}, "while :; do :; done", protocol.LimitCPU},
			{"cpu of children", protocol.ProcessLimits{CPUMs: ptr(300)}, "for i in 1 2 3; do (while :; do :; done) & done; sleep 600", protocol.LimitCPU},
			{"cpu of many that end", protocol.ProcessLimits{CPUMs: ptr(300)}, "while :; do /bin/true; done", protocol.LimitCPU},
			{"wall", protocol.ProcessLimits{WallMs: ptr(200)}, "sleep 600", protocol.LimitWall},
			{"file size", protocol.ProcessLimits{FileSizeBytes: mib(1)}, "exec head -c 3000000 /dev/zero >big", protocol.LimitFileSize},
			{"file size of a child", protocol.ProcessLimits{FileSizeBytes: mib(1)}, "head -c 3000000 /dev/zero >big", protocol.LimitFileSize},
			{"none of them", protocol.ProcessLimits{
				Processes: ptr(50), MemoryBytes: mib(1024), CPUMs: ptr(60000), WallMs: ptr(600000), FileSizeBytes: mib(1),
			}, "head -c 100000 /dev/zero >small; (echo fine)", ""},
		} {
			for _, box := range []*protocol.Sandbox{nil, w.ww(w.dir)} {
				status, text := s.end(s.limited(c, box, tt.limits, tt.script))
				if status.Limit != tt.want || tt.want != "" && status.Code == 0 {
					w.Errorf("%s, sandbox %v: %+v, want limit %q", tt.name, box != nil, status, tt.want)
				}
				if tt.want == "" && (status.Code != 0 || text != "fine\n") {
					w.Errorf("%s: %+v, %q", tt.name, status, text)
				}
			}
		}
		if info, err := os.Stat(filepath.Join(w.dir, "big")); err != nil || info.Size() != 1<<20 {
			w.Errorf("the file has %v bytes, %v", info.Size(), err)
		}
		// The others are served, and nothing of the bombs is left.
		if r := s.sh(c, w.ro(), "echo served"); r.stdout != "served\n" {
			w.Errorf("another command: %+v", r)
		}
		if n := alive(word); n > 0 {
			w.Errorf("%d processes of the bombs are left", n)
		}
	})
}

// What shares its memory with others counts once: it is not killed for what it does not
// have.
func TestItem6SharedMemoryCountsOnce(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		// 8 children share the 60 MiB of their parent.
		status, text := s.end(s.limited(c, nil, protocol.ProcessLimits{MemoryBytes: ptr(200 << 20)}, "exec "+tool+" "+toolWord+" 'fork 60 8'"))
		if status.Code != 0 || status.Limit != "" || text != "9 processes\nok\n" {
			w.Errorf("%+v, %q", status, text)
		}
	})
}

// What a limited command leaves running is still held to the limits, and ends with the
// server's session.
func TestItem6LimitsOutliveTheCommand(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.dial(nil)
		word := "wsd-left-" + filepath.Base(filepath.Dir(w.home))
		for _, tt := range []struct {
			limits protocol.ProcessLimits
			script string
		}{
			{protocol.ProcessLimits{CPUMs: ptr(300)}, "while :; do : " + word + "; done"},
			{protocol.ProcessLimits{WallMs: ptr(1000)}, "sleep 600; : " + word},
		} {
			p := s.limited(c, w.ww(w.dir), tt.limits, "(exec sh -c '"+tt.script+"') >/dev/null 2>&1 & echo left")
			// On a very busy machine the command itself may reach the limit.
			if status, text := s.end(p); status.Limit == "" && (status.Code != 0 || text != "left\n") {
				w.Errorf("%s: %+v, %q", tt.script, status, text)
			}
			for alive(word) > 0 && w.Context().Err() == nil {
				s.sh(c, nil, "sleep 0.05")
			}
		}
	})
}

// withoutCgroups is a program that starts the one that is tried where it finds no
// cgroups, if this test may bring that about.
func (w *world) withoutCgroups() string {
	w.Helper()
	if w.uid != 0 {
		return program
	}
	path := filepath.Join(w.dir, "without-cgroups")
	w.write(path, "#!/bin/sh\nexec unshare -m sh -c 'umount -l /sys/fs/cgroup; exec \"$0\" \"$@\"' "+program+" \"$@\"\n", 0o755)
	return path
}

// Whether there are cgroups or not, a command is killed for a limit without the other
// commands of the workspace, which may be in the same mount namespace.
func TestItem6LimitsSpareTheWorkspace(t *testing.T) {
	each(t, func(w *world) {
		workspace, mount := filepath.Join(w.dir, "workspace"), filepath.Join(w.dir, "mount")
		w.mkdir(workspace)
		w.mkdir(mount)
		for _, path := range slices.Compact([]string{program, w.withoutCgroups()}) {
			s := w.serveBy(path, nil, "--workspace", workspace, "--mount-point", mount)
			c := s.dial(nil)
			start := func(limits *protocol.ProcessLimits, argv ...string) *client.Process {
				p, err := c.Start(w.Context(), client.Command{Argv: argv, Dir: mount, Limits: limits, Stdin: true})
				if err != nil {
					w.Fatal(err)
				}
				return p
			}
			other := start(nil, "cat")
			status, _ := s.end(start(&protocol.ProcessLimits{WallMs: ptr(300)}, "sleep", "600"))
			if status.Limit != protocol.LimitWall {
				w.Errorf("%+v", status)
			}
			if _, err := io.WriteString(other.Stdin, "lives\n"); err != nil {
				w.Error(err)
			}
			_ = other.Stdin.Close()
			if status, text := s.end(other); status.Code != 0 || text != "lives\n" {
				w.Errorf("the other command: %+v, %q", status, text)
			}
			if err := s.Stop(); err != nil {
				w.Error(err)
			}
		}
	})
}

// What leaves the session of a sandboxed command while that ends is found.
func TestItem6LimitsFindDaemons(t *testing.T) {
	each(t, func(w *world) {
		s := w.serveBy(w.withoutCgroups(), nil)
		c := s.dial(nil)
		word := "wsd-daemon-" + filepath.Base(filepath.Dir(w.home))
		for range 5 {
			p := s.limited(c, w.ro(), protocol.ProcessLimits{WallMs: ptr(500)}, "setsid sh -c 'sleep 600; : "+word+"' >/dev/null 2>&1 & exit")
			s.end(p)
		}
		for alive(word) > 0 && w.Context().Err() == nil {
			if r := s.sh(c, w.ro(), "sleep 0.05; echo lives"); r.stdout != "lives\n" { // and nobody else is
				w.Fatalf("another command: %+v", r)
			}
		}
	})
}

// A process whose first thread has ended, so that it looks like one that has ended, is
// held to the limits.
func TestItem6FirstThreadEnds(t *testing.T) {
	each(t, func(w *world) {
		for _, path := range slices.Compact([]string{program, w.withoutCgroups()}) {
			s := w.serveBy(path, nil)
			c := s.dial(nil)
			for _, tt := range []struct {
				limits protocol.ProcessLimits
				then   string
				want   string
			}{
				{protocol.ProcessLimits{WallMs: ptr(300)}, "stay", protocol.LimitWall},
				{protocol.ProcessLimits{CPUMs: ptr(300)}, "spin", protocol.LimitCPU},
				{protocol.ProcessLimits{MemoryBytes: ptr(64 << 20)}, "hog 200", protocol.LimitMemory},
			} {
				status, _ := s.end(s.limited(c, w.ro(), tt.limits, "exec "+tool+" "+toolWord+" 'leaderless "+tt.then+"'"))
				if status.Limit != tt.want {
					w.Errorf("%s: %+v, want limit %q", tt.then, status, tt.want)
				}
			}
			if err := s.Stop(); err != nil {
				w.Error(err)
			}
		}
	})
}

// The answer to process/start says how each limit is enforced.
func TestItem6LimitsAreReported(t *testing.T) {
	each(t, func(w *world) {
		rc := w.serve(nil).raw()
		start := func(id string, limits map[string]any) (got []protocol.LimitReport, err error) {
			var answer protocol.StartResult
			err = rc.Call("process/start", map[string]any{
				"processId": id, "argv": []string{"true"}, "cwd": "file://" + w.dir, "env": map[string]string{}, "tty": false, "limits": limits,
			}, &answer)
			return answer.Limits, err
		}
		got, err := start("a", map[string]any{"memoryBytes": 1 << 30, "fileSizeBytes": 1 << 20})
		if err != nil || len(got) != 2 || got[0].Name != "memory" || !got[0].Enforced || !slices.Contains([]string{"cgroup", "watchdog"}, got[0].By) ||
			got[1] != (protocol.LimitReport{Name: "fileSize", Enforced: true, By: "rlimit"}) {
			w.Errorf("%+v, %v", got, err)
		}
		if got, err := start("b", nil); err != nil || got != nil {
			w.Errorf("without limits: %v, %v", got, err)
		}
		for _, limits := range []map[string]any{{"memoryBytes": 0}, {"memoryBytes": -1}, {"cpuMs": "1s"}, {"wallMs": 1.5}} {
			if _, err := start("c", limits); err == nil {
				w.Errorf("limits %v were taken", limits)
			}
		}
	})
}

// A bomb or a hog in a limited command does not slow the commands of others down for
// longer than it takes to end it: of the others', measured for some seconds, the 99th
// percentile stays.
func TestItem6LimitedBombsAndOthers(t *testing.T) {
	if testing.Short() {
		return // measures, and takes a while
	}
	each(t, func(w *world) {
		s := w.serve(nil)
		bomber := s.dial(nil)
		measure := func() (took []time.Duration) {
			c := s.dial(nil) // a session keeps some thousand ended commands for a while
			for range 6000 {
				begun := time.Now()
				if r := s.sh(c, nil, "echo x"); r.stdout != "x\n" {
					w.Fatalf("%+v", r)
				}
				took = append(took, time.Since(begun))
			}
			return took
		}
		p99 := func(took []time.Duration) time.Duration {
			slices.Sort(took)
			return took[len(took)*99/100]
		}
		measure()
		limits := protocol.ProcessLimits{Processes: ptr(20), MemoryBytes: ptr(64 << 20)}
		for name, script := range map[string]string{"fork bomb": bomb("wsd-bomb"), "memory hog": "exec " + memoryHog(1500)} {
			var alone, beside []time.Duration
			for range 2 { // in turn, so that both meet the same disturbances
				alone = append(alone, measure()...)
				p := s.limited(bomber, nil, limits, script)
				beside = append(beside, measure()...)
				if status, _ := s.end(p); status.Limit == "" {
					w.Errorf("%s: %+v", name, status)
				}
			}
			a, b := p99(alone), p99(beside)
			w.Logf("%s: p99 %v alone, %v beside it: %+.0f%%", name, a, b, 100*(float64(b)/float64(a)-1))
			if b > a*6/5 {
				w.Errorf("%s: the others' p99 went from %v to %v", name, a, b)
			}
		}
	})
}
