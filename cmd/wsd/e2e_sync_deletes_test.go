package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// front serves the URL of a pair for one connection more, of which the server gets so many bytes.
// It returns a channel that is closed once it has.
func (p *syncPair) front(bytes int64) (url string, full chan struct{}) {
	p.t.Helper()
	path := filepath.Join(filepath.Dir(p.here), "front")
	l, err := net.Listen("unix", path)
	if err != nil {
		p.t.Fatal(err)
	}
	full = make(chan struct{})
	ended := make(chan struct{})
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
		_, _ = io.Copy(io.Discard, near)
		_ = far.Close()
		<-back
	}()
	p.t.Cleanup(func() { _ = l.Close(); <-ended })
	return "unix://" + path, full
}

// A first push that is killed before anything of it has arrived leaves nothing behind that a
// removal could be too much of: what the server never had is not removed there.
func TestMaxDeleteUnsent(t *testing.T) {
	p := newSyncPair(t)
	want := map[string]string{}
	for d := range 60 {
		for i := range 40 {
			name := fmt.Sprintf("d%02d/f%02d", d, i)
			text := strings.Repeat(name, 400)
			writeFile(t, filepath.Join(p.here, name), text)
			if d >= 6 {
				want[name] = text
			}
		}
	}
	p.serve()
	url, full := p.front(100_000)
	cmd := p.command("sync", "--state", p.state, p.here, url)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-full
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	for d := range 6 {
		if err := os.RemoveAll(filepath.Join(p.here, fmt.Sprintf("d%02d", d))); err != nil {
			t.Fatal(err)
		}
	}
	p.sync("--dry-run").want(t, 0)
	p.sync().want(t, 0)
	p.want(want, want)
	p.sync().want(t, 0, "nothing has changed")

	// What it has is.
	for d := range 40 {
		if err := os.RemoveAll(filepath.Join(p.here, fmt.Sprintf("d%02d", d))); err != nil {
			t.Fatal(err)
		}
	}
	p.sync().want(t, 3, `1360 of 2160 files would be removed at the server`)
}
