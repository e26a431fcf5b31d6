package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// A dry run of a directory that was emptied lists what would go, and ends as the run would: nothing of
// it comes into the state.
func TestDryRunOfEmptied(t *testing.T) {
	p := newSyncPair(t)
	want := map[string]string{"a": "1", "d/b": "2", "d/c": "3"}
	for name, text := range want {
		writeFile(t, filepath.Join(p.here, name), text)
	}
	p.serve()
	p.sync().want(t, 0)
	tmp := filepath.Join(filepath.Dir(p.here), "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	away := p.here + ".away"
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(p.here, away)
	if err := os.Mkdir(p.here, 0o755); err != nil {
		t.Fatal(err)
	}
	const refuses = "here had 3 files when it was last synchronised, and has nothing now"
	for range 2 {
		p.sync("--dry-run").want(t, 3, "(?m)^> delete a$", "(?m)^> delete d/c$", refuses, "--max-delete 100%")
		p.sync("--dry-run", "--max-delete", "100%").want(t, 0, "(?m)^> delete a$", "(?m)^> delete d/c$", "to the server: 4 paths")
		p.sync("--dry-run", "--mirror", "--max-delete", "100%").want(t, 0, "(?m)^> delete a$")
		p.sync().want(t, 3, refuses)
	}
	p.want(map[string]string{}, want)
	if left, err := os.ReadDir(tmp); len(left) > 0 || err != nil {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
	if err := os.Remove(p.here); err != nil {
		t.Fatal(err)
	}
	move(away, p.here)
	p.sync().want(t, 0, "nothing has changed")
	p.want(want, want)
}

// A watch that sees files go one after the other ends before most of them have gone at the other side,
// and says how many have.
func TestFirstDWatch(t *testing.T) {
	p := newSyncPair(t)
	const files = 121
	name := func(i int) string { return fmt.Sprintf("d/f%03d", i) }
	for i := range files {
		writeFile(t, filepath.Join(p.here, name(i)), "1")
	}
	p.serve()
	watch := p.command("sync", "--watch", "--json", "--state", p.state, p.here, p.url)
	out := &logBuffer{}
	watch.Stdout, watch.Stderr = out, out
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = watch.Process.Kill() }).Stop()
	waitFor(t, out, `"type":"result"`)
	remove := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := os.Remove(filepath.Join(p.here, name(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove(0, 40)
	deadline := time.After(patience)
	left := func() int {
		list, err := os.ReadDir(filepath.Join(p.there, "d"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for tick := time.NewTicker(2 * time.Millisecond); left() > files-40; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("they stay at the server\n%s", out)
		}
	}
	remove(40, 70)
	_ = watch.Wait()
	outcome{out.String(), "", watch.ProcessState.ExitCode()}.want(t, 3, `"type":"tooMany","at":"remote","count":\d+,"of":121,"before":\d+,"names":`,
		`Error: \d+ of 121 files would be removed at the server within a minute \(d/f0.*\): \d+ of them went before, and nothing was changed now`)
	if n := left(); n < files-60 {
		t.Errorf("%d files are left at the server", n)
	}
}
