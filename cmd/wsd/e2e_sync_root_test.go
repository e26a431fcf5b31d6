package main

import (
	"os"
	"path/filepath"
	"syscall"
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

// Another workspace that is served where the server was is not mixed with what is here, unless it has
// nothing; neither by a run, nor by a watch that connects again.
func TestFirstCReplaced(t *testing.T) {
	p := newSyncPair(t)
	first, want := p.there, map[string]string{"a": "1", "d/b": "2"}
	for name, text := range want {
		writeFile(t, filepath.Join(p.there, name), text)
	}
	p.serve()
	p.sync().want(t, 0)
	watch := p.command("sync", "--watch", "--state", p.state, p.here, p.url)
	out := &logBuffer{}
	watch.Stdout, watch.Stderr = out, out
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = watch.Process.Kill() }).Stop()
	waitFor(t, out, "watching both sides")

	serve := func(name string) {
		t.Helper()
		p.server.end(syscall.SIGTERM)
		p.there, p.store = filepath.Join(p.home, name), filepath.Join(p.home, name+".db")
		if err := os.MkdirAll(p.there, 0o755); err != nil {
			t.Fatal(err)
		}
		p.serve()
	}
	other := map[string]string{"other": "3"}
	writeFile(t, filepath.Join(p.home, "other", "other"), "3")
	serve("other")
	const refuses = "Error: .*/here was in step with the workspace .*/there of the server, which serves .*/other now; nothing was changed"
	_ = watch.Wait()
	outcome{out.String(), "", watch.ProcessState.ExitCode()}.want(t, 3, refuses)
	for _, flag := range []string{"--dry-run", "--watch", "--mirror", "--merge", "--from=here"} {
		p.sync(flag).want(t, 3, refuses, "Hint: is the URL right.*--state FILE")
	}
	p.run("sync", "resolve", "--ours", "--state", p.state, filepath.Join(p.here, "a"), p.url).want(t, 3, refuses)
	p.want(want, other)

	// One that has lost its store, and one without files, get what is here.
	serve("empty")
	p.sync("--dry-run").want(t, 0, "> file a")
	p.sync().want(t, 0)
	p.want(want, want)
	p.server.end(syscall.SIGTERM)
	p.store += ".new"
	p.serve()
	p.sync().want(t, 0)
	p.want(want, want)
	if got := readTree(t, first); len(got) != 2 {
		t.Errorf("the first one has %v", got)
	}
}
