package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// commands returns what wsd history lists.
func (p *syncPair) commands(args ...string) (list []protocol.HistoryCommand) {
	p.t.Helper()
	out := p.run(append([]string{"history", "--connect", p.url, "--json"}, args...)...)
	out.want(p.t, 0)
	for d := json.NewDecoder(strings.NewReader(out.stdout)); d.More(); {
		var c protocol.HistoryCommand
		if err := d.Decode(&c); err != nil {
			p.t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// awaitCommand waits until wsd history lists one command.
func (p *syncPair) awaitCommand(args ...string) protocol.HistoryCommand {
	p.t.Helper()
	for begin := time.Now(); ; {
		if list := p.commands(args...); len(list) == 1 {
			return list[0]
		} else if time.Since(begin) > patience {
			p.t.Fatalf("%v lists %+v", args, list)
		}
	}
}

// Every command of every client is in the history, with and without a workspace, also after
// the server was killed: its number, how it has ended and what it has printed.
func TestHistory(t *testing.T) {
	for _, workspace := range []bool{false, true} {
		t.Run("workspace "+strconv.FormatBool(workspace), func(t *testing.T) {
			p := newSyncPair(t)
			audit := filepath.Join(p.home, "audit")
			serve := func() {
				cmd := p.command("serve", "--listen", p.url, "--audit-log", audit)
				if workspace {
					cmd.Args = append(cmd.Args, "--workspace", p.there, "--store", p.store)
				}
				cmd.Dir = p.there
				p.server = startReal(t, cmd)
			}
			serve()
			p.run("exec", "--connect", p.url, "--", "sh", "-c", "echo out; echo err >&2; exit 3").want(t, 3)
			live := p.command("exec", "--connect", p.url, "--", "sh", "-c", "echo begun; exec sleep 1000")
			if err := live.Start(); err != nil {
				t.Fatal(err)
			}
			defer live.Wait() //nolint:errcheck // it fails as its server is killed
			defer live.Process.Kill()
			p.awaitCommand("--failed")
			p.awaitCommand("--running")
			for begin := time.Now(); ; { // its output is written a moment later
				if o := p.run("log", "--connect", p.url, "2"); strings.Contains(o.stdout, "begun") {
					o.want(t, exitStillRunning)
					break
				} else if time.Since(begin) > patience {
					t.Fatal(o)
				}
			}
			p.server.end(syscall.SIGKILL)
			serve()
			list := p.commands()
			if len(list) != 2 {
				t.Fatalf("%+v", list)
			}
			if c := list[0]; c.Number != 1 || c.Client != "wsd" || c.ExitCode == nil || *c.ExitCode != 3 || c.Bytes != 8 || c.Argv[2] != "echo out; echo err >&2; exit 3" || c.Cwd != p.there {
				t.Errorf("%+v", c)
			}
			if c := list[1]; c.Number != 2 || c.ExitCode != nil || c.EndedAtMs == nil || c.Bytes != 6 {
				t.Errorf("%+v", c)
			}
			o := p.run("log", "--connect", p.url, "1")
			if o.want(t, 3); o.stdout != "out\n" || o.stderr != "err\n" {
				t.Errorf("%+v", o)
			}
			p.run("log", "--connect", p.url, list[0].ID).want(t, 3, "out")
			p.run("log", "--connect", p.url, "2").want(t, exitTransport, "begun", "exit status is not known")
			p.run("ps", "--all", "--connect", p.url).want(t, 0, "exited 3 +sh -c 'echo out", "exited +sh -c 'echo begun")
			p.run("exec", "--connect", p.url, "--", "true").want(t, 0)
			if c := p.awaitCommand("--text", "true"); c.Number != 3 {
				t.Errorf("%+v", c)
			}
			lines, err := os.ReadFile(audit)
			if err != nil || strings.Count(string(lines), "\n") < 1 || !strings.Contains(string(lines), `"number":1,`) {
				t.Errorf("the audit log is %s, %v", lines, err)
			}
		})
	}
}

// Several clients can follow a command at a time, and join a process.
func TestFollowAndAttach(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	first := p.command("exec", "--connect", p.url, "--", "sh", "-c", `while read line; do echo "got $line"; done; exit 5`)
	input, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	id := strconv.FormatInt(p.awaitCommand("--running").Number, 10)
	var followers []*logBuffer
	var ends []func() error
	for range 2 {
		follower, text := p.command("log", "--connect", p.url, "--follow", id), &logBuffer{}
		follower.Stdout = text
		if err := follower.Start(); err != nil {
			t.Fatal(err)
		}
		followers, ends = append(followers, text), append(ends, follower.Wait)
	}
	pid := p.commands("--running")[0].PID
	joined := p.command("attach", "--connect", p.url, strconv.Itoa(pid))
	typed, err := joined.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	shown := &logBuffer{}
	joined.Stdout = shown
	if err := joined.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for from, w := range map[string]io.Writer{"first": input, "joined": typed} {
		if _, err := io.WriteString(w, from+"\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); line != "got "+from+"\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
	if err := input.Close(); err != nil {
		t.Error(err)
	}
	for i, end := range append(ends, first.Wait, joined.Wait) {
		if err := end(); err == nil || err.Error() != "exit status 5" {
			t.Errorf("%d ends with %v", i, err)
		}
	}
	for _, text := range append(followers, shown) {
		if got := text.String(); !strings.Contains(got, "got first\n") || !strings.Contains(got, "got joined\n") {
			t.Errorf("it is shown %q", got)
		}
	}
}

// --history says what is kept of commands.
func TestHistoryModes(t *testing.T) {
	p := newSyncPair(t)
	p.server = startReal(t, p.command("serve", "--listen", p.url, "--history", historyNoArgs))
	p.run("exec", "--connect", p.url, "--", "echo", "secret").want(t, 0)
	if c := p.awaitCommand(); len(c.Argv) != 1 || c.Argv[0] != "echo" {
		t.Errorf("%+v", c)
	}
	p.server.end(syscall.SIGTERM)
	p.server = startReal(t, p.command("serve", "--listen", p.url, "--history", historyOff))
	p.run("exec", "--connect", p.url, "--", "true").want(t, 0)
	p.run("history", "--connect", p.url).want(t, 1, "--history off")
	p.run("serve", "--history", "some").want(t, 2, "no-args")
}

// A client finds at once what it has just run, however late a server writes. 'wsd log NUMBER' looks
// where 'wsd history' looks: not at a server with a workspace that was started before, and in the
// history of the directory when no server runs.
func TestHistoryAtOnce(t *testing.T) {
	p := newSyncPair(t)
	p.runtime = filepath.Join(p.home, "run")
	if err := os.Mkdir(p.runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	p.serve()
	p.run("exec", "--", "echo", "of the workspace").want(t, 0)
	serve := p.command("serve", "--listen", p.url+"2")
	serve.Dir = p.here
	plain := startReal(t, serve)
	for i := range 5 {
		p.run("exec", "--", "sh", "-c", "echo plain; exit 7").want(t, 7)
		out := p.run("history", "--json")
		out.want(t, 0)
		if strings.Count(out.stdout, `"exitCode":7`) != i+1 {
			t.Errorf("after %d commands the history is %s", i+1, out.stdout)
		}
		p.run("log", strconv.Itoa(i+1)).want(t, 7, "^plain\n$")
	}
	live := p.command("exec", "--", "sh", "-c", "echo begun; read x; echo $x; exit 4")
	typed, err := live.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	defer live.Wait() //nolint:errcheck // its status is that of attach
	defer live.Process.Kill()
	for begin := time.Now(); ; {
		if o := p.run("log", "6"); strings.Contains(o.stdout, "begun") {
			break
		} else if time.Since(begin) > patience {
			t.Fatal(o)
		}
	}
	joined := p.command("attach", "6")
	joined.Stdin = strings.NewReader("")
	out, err := joined.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := joined.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = joined.Process.Kill() }).Stop()
	shown := bufio.NewReader(out)
	if line, err := shown.ReadString('\n'); line != "begun\n" {
		t.Errorf("attach shows %q, %v", line, err)
	}
	if _, err := typed.Write([]byte("typed\n")); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(shown); string(rest) != "typed\n" || err != nil {
		t.Errorf("attach shows %q, %v", rest, err)
	}
	if err := joined.Wait(); err == nil || err.Error() != "exit status 4" {
		t.Errorf("attach: %v", err)
	}
	p.run("attach", "6").want(t, exitTransport, "6 has ended", "wsd log 6")
	p.run("attach", "99").want(t, exitTransport, "99: no such process")
	p.run("log", "none").want(t, exitTransport, "there is no command none in the history")
	p.run("history", "--running", "--failed").want(t, 2)
	plain.end(syscall.SIGTERM)
	p.server.end(syscall.SIGTERM)
	late := p.command("log", "6")
	late.Dir = p.here
	if out, _ := late.CombinedOutput(); string(out) != "begun\ntyped\n" || late.ProcessState.ExitCode() != 4 {
		t.Errorf("without a server: %s, status %d", out, late.ProcessState.ExitCode())
	}
	off := p.command("serve", "--listen", p.url+"3", "--history", "off")
	off.Dir = p.here
	startReal(t, off)
	p.run("log", "1").want(t, exitTransport, "the server has no history", "--history off")
	p.run("log", "x").want(t, exitTransport, "the server has no history", "--history off")
}
