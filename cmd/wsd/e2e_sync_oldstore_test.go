package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oldPair is a pair of directories in step, with the server's store and the client's state, of the version
// of wsd before stores refer to files. testdata/oldstore/make.sh has made it: it runs that
// version, 'wsd serve' and 'wsd sync', and compacts the two databases. The conflict, the directory that
// was moved, the one that was removed, the durable run and the changes that had not been sent are of
// that script. Nobody can extract the inodes and ctimes that the stores know.
func oldPair(t *testing.T) (p *syncPair, run string) {
	t.Helper()
	p = newSyncPair(t)
	file, err := os.Open(filepath.Join("testdata", "oldstore", "made.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(p.here)
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		default:
			var data []byte
			if data, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(name, data, h.FileInfo().Mode())
			}
			if err == nil {
				err = os.Chtimes(name, h.ModTime, h.ModTime)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	id, err := os.ReadFile(filepath.Join(dir, "runid"))
	if err != nil {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(string(id))
}

// serveOld is serve for runs of any age.
func (p *syncPair) serveOld() {
	p.t.Helper()
	p.server = startReal(p.t, p.command("serve", "--workspace", p.there, "--store", p.store, "--listen", p.url, "--runs-max-age", "0"))
}

// A store and a state of the version before stores refer to files are opened and brought over, by
// whatever command comes first.
func TestOldStores(t *testing.T) {
	for name, first := range map[string]func(*syncPair){
		"sync": func(*syncPair) {},
		"fsck": func(p *syncPair) {
			p.run("fsck", "--workspace", p.there, "--store", p.store).want(p.t, 0)
			p.run("fsck", "--workspace", p.here, "--store", p.state).want(p.t, 0)
		},
		"gc without a server": func(p *syncPair) {
			p.run("gc", "--now", "--workspace", p.there, "--store", p.store).want(p.t, 0)
			if rows, objects := stored(p.t, p.store); rows > 700_000 || objects > 0 {
				p.t.Errorf("the store has %d bytes of rows and %d of objects, of content that files have", rows, objects)
			}
		},
		"lost": func(p *syncPair) {
			p.run("sync", "lost", "--state", p.state).want(p.t, 0)
			p.run("sync", "lost", "--state", p.store).want(p.t, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, id := oldPair(t)
			first(p)
			p.serveOld()
			// What had not been sent moves, and nothing else.
			p.sync("--dry-run").want(t, 0, "< file others", "> file later")
			p.sync().want(t, 0, "to the server: 1 path, 6 B; from there: 1 path, 6 B")
			p.sync().want(t, 0, "nothing has changed")
			p.same(p.here, p.there)
			// The run's log is readable.
			log := p.run("log", "--connect", p.url, id)
			if log.want(t, 7); log.stdout != "out\n" || log.stderr != "err\n" {
				t.Errorf("the log has %q and %q", log.stdout, log.stderr)
			}
			p.run("ps", "--all", "--connect", p.url).want(t, 0, id)
			// Content is fetched right, before and after the old rows are gone.
			other := filepath.Join(p.home, "other")
			p.run("sync", "--create", "--state", other+".db", other, p.url).want(t, 0)
			p.same(other, p.there)
			p.run("gc", "--now", "--connect", p.url).want(t, 0)
			third := filepath.Join(p.home, "third")
			p.run("sync", "--create", "--state", third+".db", third, p.url).want(t, 0)
			p.same(third, p.there)
			// Work goes on: a change of each kind, both ways.
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.WriteFile(filepath.Join(p.here, "plain"), []byte("edited"), 0o644))
			must(os.Rename(filepath.Join(p.here, "long"), filepath.Join(p.here, "d", "long")))
			must(os.Remove(filepath.Join(p.there, "d", "copy")))
			must(os.Chmod(filepath.Join(p.there, "moved", "private"), 0o640))
			p.sync().want(t, 0)
			p.same(p.here, p.there)
			p.server.end(syscall.SIGTERM)
			for _, c := range [][2]string{{p.there, p.store}, {p.here, p.state}} {
				p.run("fsck", "--workspace", c[0], "--store", c[1]).want(t, 0)
				if rows, objects := stored(t, c[1]); rows > 700_000 || objects > 0 {
					t.Errorf("%s has %d bytes of rows and %d of objects", filepath.Base(c[1]), rows, objects)
				}
			}
		})
	}
}

// same compares two directories: kinds, modes, times of files to the millisecond, as the old version kept
// them, content.
func (p *syncPair) same(a, b string) {
	p.t.Helper()
	if diff := cmp.Diff(described(p.t, a), described(p.t, b)); diff != "" {
		p.t.Errorf("%s and %s (-a +b):\n%s", filepath.Base(a), filepath.Base(b), diff)
	}
}

func described(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		about := info.Mode().String()
		switch {
		case d.Type() == iofs.ModeSymlink:
			target, err := os.Readlink(path)
			about += " " + target
			files[path[len(dir)+1:]] = about
			return err
		case d.Type().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			about += fmt.Sprintf(" %v %x", info.ModTime().UnixMilli(), sha256.Sum256(text))
		}
		files[path[len(dir)+1:]] = about
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
