package sandbox

import (
	"slices"
	"testing"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

func TestMountedTwice(t *testing.T) {
	all := parseMounts(`22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 254:0 /srv/a\040b /mnt\134x rw shared:1 - ext4 /dev/vda rw
41 27 254:1 /@home /home rw - btrfs /dev/vdb rw
42 27 254:1 /@home/ann/p /workspace rw - btrfs /dev/vdb rw
43 27 254:2 / /data rw - ext4 /dev/vdc rw
short
`)
	if len(all) != 4 {
		t.Errorf("%d mounts: %q", len(all), all)
	}
	for path, want := range map[string][]string{
		"/srv/a b/f":      {`/mnt\x/f`},
		`/mnt\x/f/g`:      {"/srv/a b/f/g"},
		`/mnt\x`:          {"/srv/a b"},
		"/srv/a":          nil,
		"/":               nil,
		"/data/f":         nil,
		"/home/ann/p":     {"/workspace"},
		"/home/ann/pq":    nil,
		"/workspace/.git": {"/home/ann/p/.git"},
	} {
		// A path below one mount is below the root as well, which is a guess that
		// looking at the files refutes.
		got := slices.DeleteFunc(all.candidates(path), func(name string) bool { return slashpath.Within(name, "/@home") })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
