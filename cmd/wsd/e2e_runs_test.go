package main

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/client"
)

// With 256 runs that are live the next one is refused, with what can be done about it. Those
// that are there can be listed, followed and ended, and then there is room.
func TestHintsOfTheRun257(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	c, err := client.Dial(t.Context(), p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 256 {
		run, err := c.Exec(t.Context(), client.DurableCommand{ID: "run-" + strconv.Itoa(i), Line: "exec sleep 1000", Timeout: client.NoTimeout})
		if err != nil {
			t.Fatal(i, err)
		}
		run.Close()
	}
	wsd := func(status int, args ...string) string {
		t.Helper()
		cmd := p.command(args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
			t.Errorf("wsd %s: %v, want status %d: %s", strings.Join(args, " "), err, status, &out)
		}
		return out.String()
	}
	for _, args := range [][]string{
		{"exec", "--connect", p.url, "--detach", "--", "true"},
		{"exec", "--connect", p.url, "--detach", "--", "sleep", "1000"},
	} {
		if got := wsd(255, args...); !strings.Contains(got, "256 commands are running") || !strings.Contains(got, "'wsd ps' lists what runs, and 'wsd kill ID' ends one") {
			t.Errorf("it says %q", got)
		}
	}
	if got := wsd(0, "ps", "--connect", p.url); strings.Count(got, "run-") != 256 {
		t.Errorf("%d runs are listed", strings.Count(got, "run-"))
	}
	if got := wsd(exitStillRunning, "log", "--connect", p.url, "run-7"); !strings.Contains(got, "--follow") {
		t.Errorf("the log of a run says %q", got)
	}
	followed := p.command("log", "--connect", p.url, "--follow", "run-7")
	if err := followed.Start(); err != nil {
		t.Fatal(err)
	}
	wsd(0, "kill", "--connect", p.url, "run-7")
	err = followed.Wait()
	if ended, ok := err.(*exec.ExitError); !ok || ended.ExitCode() != 143 { //nolint:errorlint // Wait does not wrap it
		t.Errorf("the follower of a run that was killed ends with %v", err)
	}
	id := strings.TrimSpace(wsd(0, "exec", "--connect", p.url, "--detach", "--", "true"))
	wsd(0, "log", "--connect", p.url, "--follow", id)
	wsd(0, "exec", "--connect", p.url, "--", "true") // no durable run
}
