package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	url, full, _ := p.front(100_000)
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
