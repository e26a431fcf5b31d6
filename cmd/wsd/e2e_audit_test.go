package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// The audit log has a line for each command that has ended, also of one whose server was
// killed: exactly one.
func TestAuditLog(t *testing.T) {
	for _, workspace := range []bool{false, true} {
		t.Run("workspace "+strconv.FormatBool(workspace), func(t *testing.T) {
			p := newSyncPair(t)
			audit := filepath.Join(p.home, "audit")
			serve := func() {
				args := []string{"serve", "--listen", p.url, "--audit-log", audit}
				if workspace {
					args = append(args, "--workspace", p.there, "--store", p.store)
				}
				cmd := p.command(args...)
				cmd.Dir = p.there
				p.server = startReal(t, cmd)
			}
			serve()
			p.run("exec", "--connect", p.url, "--", "sh", "-c", "echo hi; : '<&>'; exit 3").want(t, 3)
			live := p.command("exec", "--connect", p.url, "--", "sleep", "1000")
			if err := live.Start(); err != nil {
				t.Fatal(err)
			}
			defer live.Wait() //nolint:errcheck // it fails as its server is killed
			defer live.Process.Kill()
			p.awaitCommand("--failed")
			p.awaitCommand("--running")
			p.server.end(syscall.SIGKILL)
			serve()
			p.run("exec", "--connect", p.url, "--", "true").want(t, 0)
			p.awaitCommand("--text", "true")
			p.server.end(syscall.SIGTERM)
			text, err := os.ReadFile(audit)
			if err != nil {
				t.Fatal(err)
			}
			got := map[int64]protocol.HistoryCommand{}
			for line := range strings.Lines(string(text)) {
				var c protocol.HistoryCommand
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if _, twice := got[c.Number]; twice {
					t.Errorf("command %d has two lines", c.Number)
				}
				got[c.Number] = c
				if c.Cwd != p.there {
					t.Errorf("command %d ran in %s, want %s as in the history", c.Number, c.Cwd, p.there)
				}
			}
			if a, b, c := got[1], got[2], got[3]; len(got) != 3 || *a.ExitCode != 3 || a.Bytes != 3 || b.ExitCode != nil || b.EndedAtMs == nil || *c.ExitCode != 0 {
				t.Errorf("the audit log is\n%s", text)
			}
		})
	}
}

// Servers of one directory share its history: each lists the commands of all.
func TestHistoryIsShared(t *testing.T) {
	p := newSyncPair(t)
	urls := []string{p.url, p.url + "2"}
	for _, url := range urls {
		cmd := p.command("serve", "--listen", url)
		cmd.Dir = p.there
		startReal(t, cmd)
	}
	for _, url := range urls {
		p.run("exec", "--connect", url, "--", "echo", url).want(t, 0)
	}
	numbers := map[int64]bool{}
	for _, url := range urls {
		p.url = url
		for begin := time.Now(); ; {
			list := p.commands()
			for i := range list {
				numbers[list[i].Number] = true
			}
			if len(list) == 2 {
				break
			} else if time.Since(begin) > patience {
				t.Fatalf("%s lists %+v", url, list)
			}
		}
	}
	if len(numbers) != 2 {
		t.Errorf("the commands have the numbers %v", numbers)
	}
}

// With --history off nothing of a session's command is in the store, whatever it serves.
func TestHistoryOffKeepsNothing(t *testing.T) {
	p := newSyncPair(t)
	p.server = startReal(t, p.command("serve", "--listen", p.url, "--workspace", p.there, "--store", p.store, "--history", historyOff))
	p.run("exec", "--connect", p.url, "--", "sh", "-c", ": SECRETARG; echo SECRET; echo OUT | tr -d ' '").want(t, 0)
	p.run("history", "--connect", p.url).want(t, 1, "--history off")
	p.server.end(syscall.SIGTERM)
	files, err := filepath.Glob(p.store + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			continue
		}
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "SECRET") {
			t.Errorf("%s has what a command was, or printed; %v", file, err)
		}
	}
}
