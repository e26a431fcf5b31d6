package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// front serves the URL of a pair for one connection more. It closes full once the server has got so
// many bytes of that, and passes on the others when on is called.
func (p *syncPair) front(bytes int64) (url string, full chan struct{}, on func()) {
	p.t.Helper()
	path := filepath.Join(filepath.Dir(p.here), "front")
	l, err := net.Listen("unix", path)
	if err != nil {
		p.t.Fatal(err)
	}
	full = make(chan struct{})
	more, ended := make(chan struct{}), make(chan struct{})
	on = sync.OnceFunc(func() { close(more) })
	go func() { // ends with the test, or when there is no connection
		defer close(ended)
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := net.Dial("unix", strings.TrimPrefix(p.url, "unix://"))
		if err != nil {
			p.t.Error(err)
			return
		}
		defer far.Close()
		back := make(chan struct{})
		go func() { // ends with its connections
			defer close(back)
			_, _ = io.Copy(near, far)
		}()
		_, _ = io.CopyN(far, near, bytes)
		close(full)
		<-more
		_, _ = io.Copy(far, near)
		_ = far.Close()
		<-back
	}()
	p.t.Cleanup(func() { _ = l.Close(); on(); <-ended })
	return "unix://" + path, full, on
}

// Of two clients that find the server empty at the same moment the second one is refused: their
// trees are not mixed.
func TestFirstContactRace(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "mine"), strings.Repeat("mine\n", 200_000))
	here := readTree(t, p.here)
	other := filepath.Join(filepath.Dir(p.here), "other")
	writeFile(t, filepath.Join(other, "theirs"), "theirs\n")
	p.serve()
	url, full, on := p.front(100_000)
	cmd := p.command("sync", "--state", p.state, p.here, url)
	var out logBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-full
	p.run("sync", "--state", filepath.Join(filepath.Dir(p.here), "other.db"), other, p.url).want(t, 0)
	on()
	_ = cmd.Wait() // its status is looked at
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(out.String(), "both have files and were never in step: 1 file would go to the server (mine), 1 would come from there (theirs), 0 differ;") {
		t.Errorf("status %d: %s", code, &out)
	}
	p.want(here, map[string]string{"theirs": "theirs\n"})
	if _, err := os.Stat(p.state); !os.IsNotExist(err) {
		t.Errorf("a state is left: %v", err)
	}
	p.sync().want(t, 3, "--merge")
	p.sync("--merge").want(t, 0)
	all := map[string]string{"mine": here["mine"], "theirs": "theirs\n"}
	p.want(all, all)
	p.sync().want(t, 0, "nothing has changed")
}
