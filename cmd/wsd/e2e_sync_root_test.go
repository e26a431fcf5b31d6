package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A watch ends when the directory that it watches is removed at the server, or something else takes
// its place, and what is here stays.
func TestFirstBWatch(t *testing.T) {
	const (
		gone = "the directory /workspace/sub was re(moved|named to /workspace/moved) at the server"
		link = "/workspace/sub is a link at the server, and no directory"
	)
	for name, put := range map[string]bool{"renamed": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			p := newSyncPair(t)
			want := map[string]string{"a": "1", "d/b": "2"}
			for name, text := range want {
				writeFile(t, filepath.Join(p.there, "sub", name), text)
			}
			p.serve()
			watch := p.command("sync", "--watch", "--state", p.state, "--remote-path", "/workspace/sub", p.here, p.url)
			out := &logBuffer{}
			watch.Stdout, watch.Stderr = out, out
			if err := watch.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(patience, func() { _ = watch.Process.Kill() }).Stop()
			waitFor(t, out, "watching both sides")
			from, to := filepath.Join(p.there, "sub"), filepath.Join(p.there, "moved")
			if put {
				to = filepath.Join(p.home, "moved")
				if err := os.Symlink(to, from+".new"); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			if put {
				if err := os.Rename(from+".new", from); err != nil {
					t.Fatal(err)
				}
			}
			_ = watch.Wait()
			outcome{out.String(), "", watch.ProcessState.ExitCode()}.want(t, 3, gone+"|"+link)
			p.sync("--remote-path", "/workspace/sub").want(t, 3, map[bool]string{false: gone, true: link}[put])
			p.want(want, readTree(t, p.there))
		})
	}
}
