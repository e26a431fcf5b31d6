package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// stored is how many bytes a store has with its objects, without its log and its reserve.
func stored(t *testing.T, store string) (rows, objects int64) {
	t.Helper()
	info, err := os.Stat(store)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(store + ".objects")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if i, err := e.Info(); err == nil {
			objects += i.Size()
		}
	}
	return info.Size(), objects
}

// noise writes a file of random bytes.
func noise(t *testing.T, path string, size int) {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.Read(data)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A directory that is copied, so that its content stands at two places, is not in the objects of either
// side, whatever becomes of one of the two: F5.
func TestF5CopiedContentIsNotKeptApart(t *testing.T) {
	p := newSyncPair(t)
	for i := range 6 {
		noise(t, filepath.Join(p.here, "d", fmt.Sprint(i)), tree.ChunkSize*(1+i%3)+i%2)
	}
	p.serve()
	shell := func(script string) {
		t.Helper()
		cmd := program(t)
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	for _, step := range []string{
		"", // the first push
		"cp -r %[1]s/d %[1]s/d2",
		"rm -r %[1]s/d",
		"mv %[1]s/d2 %[1]s/d; cp -r %[1]s/d %[1]s/d3",
		"cp -r %[2]s/d3 %[2]s/d4", // at the server
		"rm -r %[2]s/d; cp %[2]s/d3/1 %[2]s/d4/2",
		"cp %[1]s/d3/0 %[1]s/d3/1; mv %[1]s/d4 %[1]s/d5; cp -r %[1]s/d5/* %[1]s/d3",
	} {
		if step != "" {
			shell(fmt.Sprintf(step, p.here, p.there))
		}
		p.sync("--max-delete", "100%").want(t, 0)
		for _, store := range []string{p.store, p.state} {
			if _, objects := stored(t, store); objects != 0 {
				t.Errorf("%s has %d bytes in objects after %q", filepath.Base(store), objects, step)
			}
		}
		shell(fmt.Sprintf("diff -r %s %s", p.here, p.there))
	}
	p.run("gc", "--now", "--connect", p.url).want(t, 0, "0 bytes")
	p.server.end(syscall.SIGTERM)
	p.run("fsck", "--workspace", p.there, "--store", p.store).want(t, 0)
}

// Artifacts that are pushed, fetched and deleted, all at once or one after the other, leave both stores
// small. As five of 200 MB are these of 8 MiB.
func TestF5ArtifactsLeaveTheStoresSmall(t *testing.T) {
	const artifact, most = 8 << 20, 8 << 20 / 100
	p := newSyncPair(t)
	p.serve()
	small := func(when string) {
		t.Helper()
		for _, store := range []string{p.store, p.state} {
			rows, objects := stored(t, store)
			if objects > most || rows > 4*most {
				t.Errorf("%s has %d bytes of rows and %d of objects %s", filepath.Base(store), rows, objects, when)
			}
		}
	}
	remove := func(dir string) {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(dir, "artifact*"))
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		for _, name := range list {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, to := range []string{p.here, p.there} {
		for i := range 5 { // one after the other, of whole windows and not
			noise(t, filepath.Join(to, fmt.Sprint("artifact", i)), artifact-i%2)
			p.sync().want(t, 0)
			small("with an artifact")
			remove(to)
			p.sync("--max-delete", "100%").want(t, 0)
			small("when it is deleted")
		}
		for i := range 5 {
			noise(t, filepath.Join(to, fmt.Sprint("artifact", i)), artifact-i%2)
		}
		p.sync().want(t, 0)
		small("with five artifacts")
		remove(to)
		p.sync("--max-delete", "100%").want(t, 0)
		small("when they are deleted")
	}
}
