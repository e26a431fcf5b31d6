package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// follow runs a command that prints a line of JSON for each thing that happens, and returns
// a function that decodes the next.
func (p *syncPair) follow(args ...string) (next func(any)) {
	p.t.Helper()
	cmd := p.command(append(args, "--connect", p.url, "--follow", "--json")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	errs := &logBuffer{}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	d := json.NewDecoder(out)
	return func(v any) {
		p.t.Helper()
		defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
		if err := d.Decode(v); err != nil {
			p.t.Fatalf("wsd %v: %v\n%s", args, err, errs)
		}
	}
}

// A follower of the history prints each end once, in order: none from before, those of
// another server of the directory, and those after a kill of the server.
func TestHistoryFollow(t *testing.T) {
	for _, workspace := range []bool{false, true} {
		t.Run("workspace "+strconv.FormatBool(workspace), func(t *testing.T) {
			p := newSyncPair(t)
			serve := func(url string) *realServer {
				cmd := p.command("serve", "--listen", url)
				if workspace {
					cmd.Args = append(cmd.Args, "--workspace", p.there, "--store", p.store)
				}
				cmd.Dir = p.there
				return startReal(t, cmd)
			}
			p.server = serve(p.url)
			for range 5 {
				p.run("exec", "--connect", p.url, "--", "true").want(t, 0)
			}
			p.awaitCommand("--text", "true", "-n", "1")
			for begin := time.Now(); len(p.commands()) < 5 || len(p.commands("--running")) > 0; {
				if time.Since(begin) > patience {
					t.Fatal("not all is recorded")
				}
			}
			next := p.follow("history", "-n", "1")
			want := func(number int64, ended bool) {
				t.Helper()
				var c protocol.HistoryCommand
				if next(&c); c.Number != number || (c.EndedAtMs != nil) != ended {
					t.Errorf("it prints %+v, want number %d", c, number)
				}
			}
			want(5, true)
			p.run("exec", "--connect", p.url, "--", "true").want(t, 0)
			want(6, true)
			number := int64(7)
			if !workspace {
				other := p.url + "2"
				second := serve(other)
				p.run("exec", "--connect", other, "--", "true").want(t, 0)
				want(number, true)
				number++
				second.end(syscall.SIGTERM)
			}
			live := p.command("exec", "--connect", p.url, "--", "sleep", "1000")
			if err := live.Start(); err != nil {
				t.Fatal(err)
			}
			defer live.Wait() //nolint:errcheck // it fails as its server is killed
			defer live.Process.Kill()
			p.awaitCommand("--running")
			p.server.end(syscall.SIGKILL)
			p.server = serve(p.url)
			want(number, true)
			p.run("exec", "--connect", p.url, "--", "true").want(t, 0)
			want(number+1, true)
		})
	}
}

// Commands are found by the text of their command lines. Flags without a meaning are usage
// errors.
func TestHistoryArguments(t *testing.T) {
	for _, workspace := range []bool{false, true} {
		p := newSyncPair(t)
		if workspace {
			p.serve()
		} else {
			p.server = startReal(t, p.command("serve", "--listen", p.url))
		}
		p.run("exec", "--connect", p.url, "--", "sh", "-c", "true && true <&0").want(t, 0)
		for _, text := range []string{"sh -c", "-c true", "true &&", "<&0"} {
			p.awaitCommand("--text", text)
		}
		p.run("log", "--connect", p.url, "99").want(t, exitTransport, "there is no command 99 in the history", "'wsd history' lists")
		p.run("log", "--connect", p.url, "none").want(t, exitTransport, "there is no command none in the history|no exec record for id none")
		p.run("log", "--connect", p.url, "").want(t, exitUsage, "the ID is empty")
		p.run("history", "--connect", p.url, "--since=-5s").want(t, exitUsage, "--since 1h")
		p.run("history", "--connect", p.url, "--running", "--follow").want(t, exitUsage, "'wsd history --running'")
	}
}

// No ID that a client chooses hides a command from 'wsd log NUMBER'.
func TestHistoryNumberFirst(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	p.run("exec", "--connect", p.url, "--", "echo", "the first").want(t, 0)
	p.awaitCommand()
	c, err := client.Dial(t.Context(), p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, id := range []string{"1", "01", "777"} {
		run, err := c.Exec(t.Context(), client.DurableCommand{ID: id, Line: "echo of " + id})
		if err != nil {
			t.Fatal(err)
		}
		for {
			if e, err := run.Next(t.Context()); err != nil {
				t.Fatal(err)
			} else if e.Ended() {
				break
			}
		}
		run.Close()
	}
	for id, want := range map[string]string{"1": "the first\n", "2": "of 1\n", "01": "of 01\n", "777": "of 777\n"} {
		o := p.run("log", "--connect", p.url, id)
		if o.want(t, 0); o.stdout != want {
			t.Errorf("wsd log %s prints %q", id, o.stdout)
		}
	}
}

// A slow follower names every event that it has missed.
func TestHistoryLogGaps(t *testing.T) {
	p := newSyncPair(t)
	p.server = startReal(t, p.command("serve", "--listen", p.url))
	cmd := p.command("exec", "--connect", p.url, "--", "sh", "-c", "echo begun; read x; head -c 9000000 /dev/zero; echo end; exit 7")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	number := fmt.Sprint(p.awaitCommand("--running").Number)
	next := p.follow("log", number)
	var e logEvent
	if next(&e); e.Seq != 1 {
		t.Fatalf("%+v", e)
	}
	// The follower is not read until the command has ended: its pipe is full.
	if _, err := io.WriteString(input, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "exit status 7" {
		t.Error(err)
	}
	p.awaitCommand("--failed")
	gaps := 0
	for last := uint64(1); ; {
		e = logEvent{}
		switch next(&e); e.Type {
		case "output":
			if e.Seq != last+1 {
				t.Errorf("event %d comes after %d", e.Seq, last)
			}
			last = e.Seq
			continue
		case "missing":
			if e.From != last+1 || e.To < e.From {
				t.Errorf("%d to %d are missing after %d", e.From, e.To, last)
			}
			last = e.To
			gaps++
			continue
		}
		break
	}
	if e.Type != "exited" || *e.ExitCode != 7 || gaps == 0 {
		t.Errorf("%+v after %d gaps", e, gaps)
	}
	o := p.run("log", "--connect", p.url, number)
	if o.want(t, 7, "the events 1 to [0-9]+ are not kept"); strings.Count(o.stderr, "are not kept") != 1 {
		t.Errorf("it is said twice: %s", o.stderr)
	}
}
