package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/wsd-dev/wsd/client"
)

func TestStatusError(t *testing.T) {
	for _, tt := range []struct {
		status client.ExitStatus
		want   int
	}{
		{client.ExitStatus{}, 0},
		{client.ExitStatus{Code: 3}, 3},
		{client.ExitStatus{Code: 255}, 255},
		{client.ExitStatus{Code: 137, Signal: "SIGKILL"}, 137},
		{client.ExitStatus{Code: 1, Signal: "SIGINT"}, 130}, // on a PTY
		{client.ExitStatus{Code: 143}, 143},                 // the original does not name the signal
		{client.ExitStatus{Code: 1, Signal: "SIGODD"}, 1},
		{client.ExitStatus{Code: 143, Signal: "SIGTERM", TimedOut: true}, 124},
		{client.ExitStatus{Code: -1}, 255},
	} {
		err := statusError(tt.status)
		if tt.want == 0 {
			if err != nil {
				t.Errorf("%+v: %v", tt.status, err)
			}
			continue
		}
		if exit, ok := errors.AsType[*exitError](err); !ok || exit.code != tt.want {
			t.Errorf("%+v: got %v, want %d", tt.status, err, tt.want)
		}
	}
}

// expect reads r until text has come.
func expect(t *testing.T, r io.Reader, seen *bytes.Buffer, text string) {
	t.Helper()
	buf := make([]byte, 1024)
	late := time.AfterFunc(patience, func() { panic(fmt.Sprintf("no %q after %v: %q", text, patience, seen.String())) })
	defer late.Stop()
	for !strings.Contains(seen.String(), text) {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("no %q: %v\n%q", text, err, seen.String())
		}
	}
	after := seen.String()[strings.Index(seen.String(), text)+len(text):]
	seen.Reset()
	seen.WriteString(after)
}

// A shell on a terminal: keys go to it raw, it has the terminal's size and follows
// it, and the terminal is as before at the end.
func TestShellOnATerminal(t *testing.T) {
	cmd := program(t, "shell")
	cmd.Env = append(cmd.Env, "TERM=vt100")
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 101})
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	var seen bytes.Buffer
	say := func(text string) { fmt.Fprint(master, text) }
	say("PS1='re''ady> '; stty size; echo $TERM\r")
	expect(t, master, &seen, "33 101")
	expect(t, master, &seen, "vt100")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 44, Cols: 102}); err != nil {
		t.Fatal(err)
	}
	say("until [ \"$(stty size)\" = '44 102' ]; do :; done; echo followed-$((40+2))\r")
	expect(t, master, &seen, "followed-42")
	say("sh -c 'echo sleeping-$((40+2)); exec sleep 300'\r")
	expect(t, master, &seen, "sleeping-42")
	say("\x03") // ^C is for the sleep
	expect(t, master, &seen, "ready> ")
	say("echo awake-$((40+2)); exit 5\r")
	expect(t, master, &seen, "awake-42")
	_, _ = io.Copy(io.Discard, master) // to its end, which is EIO
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 5 {
		t.Errorf("ended with %v", err)
	}
}

// Signals are the command's; wsd itself waits for it.
func TestSignalsAreForwarded(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 11, syscall.SIGTERM: 12, syscall.SIGQUIT: 13, syscall.SIGHUP: 14, syscall.SIGUSR1: 15} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd := program(t, "exec", "-n", "--", "sh", "-c",
				`trap 'exit 11' INT; trap 'exit 12' TERM; trap 'exit 13' QUIT; trap 'exit 14' HUP; trap 'exit 15' USR1; echo ready; while :; do sleep 0.02; done`)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != want {
				t.Errorf("ended with %v, want %d", err, want)
			}
		})
	}
}

// A third interrupt kills a command that does not heed the first.
func TestThirdInterruptKills(t *testing.T) {
	cmd := program(t, "exec", "-n", "--", "sh", "-c", `trap 'echo no' INT; echo ready; while :; do sleep 0.02; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for _, want := range []string{"ready\n", "no\n", "no\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 137 {
		t.Errorf("ended with %v", err)
	}
}

// mostCuts is how many connections a cutProxy cuts. A client that is slow enough may need
// more for its next step than passes before a cut, and would never get there.
const mostCuts = 100

// cutProxy forwards TCP connections to a server and cuts each after some bytes.
type cutProxy struct {
	net.Listener
	target string
	least  int64 // bytes to the client before a cut
	cuts   atomic.Int64
	wg     sync.WaitGroup
}

func newCutProxy(t *testing.T, target string, least int64) *cutProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutProxy{Listener: l, target: strings.TrimPrefix(target, "ws://"), least: least}
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.forward(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); p.wg.Wait() })
	return p
}

func (p *cutProxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(server, client); server.Close() })
	if p.cuts.Load() < mostCuts {
		n, _ := io.CopyN(client, server, p.least+rand.Int64N(p.least))
		if n >= p.least {
			p.cuts.Add(1)
		}
	} else {
		_, _ = io.Copy(client, server)
	}
	client.Close()
	server.Close()
	wg.Wait()
}

// The output of a command survives connections that are cut, byte for byte, and so
// does its exit status.
func TestExecSurvivesCuts(t *testing.T) {
	server := serveReal(t)
	proxy := newCutProxy(t, server.url, 30_000)
	cmd := program(t, "exec", "--connect", "ws://"+proxy.Addr().String(), "--", "sh", "-c",
		`i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo "line $i"; [ $((i % 300)) = 0 ] && sleep 0.001; done; cat; exit 6`)
	cmd.Stdin = strings.NewReader("the end\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 6 {
		t.Errorf("ended with %v", err)
	}
	var want bytes.Buffer
	for i := range 30_000 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	want.WriteString("the end\n")
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("printed %d bytes, want %d, or others", out.Len(), want.Len())
	}
	if n := proxy.cuts.Load(); n < 5 {
		t.Errorf("%d cuts only", n)
	}
}

// A tree arrives whole although the connection is cut again and again.
func TestCpSurvivesCuts(t *testing.T) {
	server := serveReal(t)
	proxy := newCutProxy(t, server.url, 1_000_000)
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.Mkdir(from, 0o755); err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]byte)
	for i := range 200 {
		name, data := fmt.Sprint("file ", i), bytes.Repeat([]byte(fmt.Sprint(i)), 10_000)
		want[name] = data
		if err := os.WriteFile(filepath.Join(from, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := program(t, "cp", "--connect", "ws://"+proxy.Addr().String(), ":"+from, to)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	entries, err := os.ReadDir(to)
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for name, data := range want {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if n := proxy.cuts.Load(); n < 2 {
		t.Errorf("%d cuts only", n)
	}
}

// An interrupted wsd leaves nothing running, whoever's server it used.
func TestEndOfExecEndsTheCommand(t *testing.T) {
	server := serveReal(t)
	cmd := program(t, "exec", "-n", "--connect", server.url, "--", "sh", "-c", "echo $$; exec sleep 300")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	waitGone(t, pid)
}

// A reader that goes away ends a command that has output piled up all the way.
func TestReaderOfAFloodGoesAway(t *testing.T) {
	server := serveReal(t)
	cmd := program(t, "exec", "-n", "--connect", server.url, "--", "yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := server.dial()
	var last uint64
	still := 0
	for range time.Tick(20 * time.Millisecond) { // nothing tells of pipes that are full
		if still == 10 {
			break
		}
		list, err := c.Processes(t.Context(), "server")
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 && list[0].NextSeq > 1 && list[0].NextSeq == last {
			still++
			continue
		}
		still = 0
		if len(list) == 1 {
			last = list[0].NextSeq
		}
	}
	_ = out.Close()
	began := time.Now()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 128+int(syscall.SIGPIPE) {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(began); took > signalWait {
		t.Errorf("took %v", took)
	}
}

// A server that is stopped does not keep the client from ending.
func TestExecEndsWithoutTheServer(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "^C again and again": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveReal(t)
			cmd := program(t, "exec", "--connect", server.url, "--", "sh", "-c", "echo ready; exec sleep 60")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(server.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
				t.Fatalf("the server does not stop: %v, %v", status, err)
			}
			began := time.Now()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			again := time.NewTicker(20 * time.Millisecond) // several that wait are one
			defer again.Stop()
			for range 25 { // not for ever: after it has given up one ends it at once
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				<-again.C
			}
			err = <-ended
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 128+int(sig) {
				t.Errorf("ended with %v", err)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("took %v", took)
			}
			if !strings.Contains(said.String(), "may still run") {
				t.Errorf("said %q", said.String())
			}
		})
	}
}

// quietListener is an address that takes connections and says nothing.
func quietListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
