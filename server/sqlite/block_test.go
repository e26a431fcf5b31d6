package sqlite

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
)

// The index of a directory says the same as a map does, whatever is put, removed and moved, and no row
// of it becomes large or stays nearly empty.
func TestBlocksAreAMap(t *testing.T) {
	db := openCopy(t)
	r := rand.New(rand.NewPCG(10, 10))
	want := map[string]string{}
	updateRows(t, db, func(rows disk.Rows) error {
		root := disk.Root{Tree: "a", Mount: "/", State: []byte{}}
		return rows.PutDiskRoot(&root)
	})
	dirs := []string{"", "d/", "d/e/", "d-/", "ü/"}
	path := func() string {
		name := fmt.Sprintf("name%04d", r.IntN(600))
		if r.IntN(50) == 0 {
			name += strings.Repeat("x", 247)
		}
		return dirs[r.IntN(len(dirs))] + name
	}
	for round := range 60 {
		updateRows(t, db, func(rows disk.Rows) error {
			switch round % 6 {
			case 4:
				for range 40 {
					p := path()
					maps.DeleteFunc(want, func(k, _ string) bool { return k == p })
					if err := rows.DeleteDiskStats(1, p); err != nil {
						return err
					}
				}
			case 5:
				for range 20 {
					from, to := path(), path()
					if _, is := want[to]; is || from == to {
						continue
					}
					if stat, is := want[from]; is {
						want[to] = stat
						delete(want, from)
					}
					if err := rows.MoveDiskStats(1, from, to); err != nil {
						return err
					}
				}
			default:
				var put []disk.Row
				for range 1 + r.IntN(120) {
					p, stat := path(), string(statOf(r.IntN(9999)))
					want[p] = stat
					put = append(put, disk.Row{Path: p, Stat: []byte(stat)})
				}
				return rows.PutDiskStats(1, put)
			}
			return nil
		})
		updateRows(t, db, func(rows disk.Rows) error {
			var got []string
			err := rows.DiskStats(1, func(path string, stat []byte) error {
				if want[path] != string(stat) {
					t.Errorf("%s is %x, want %x", path, stat, want[path])
				}
				got = append(got, path)
				return nil
			})
			slices.Sort(got)
			if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
				t.Errorf("round %d: %d paths, want %d", round, len(got), len(want))
			}
			p := path()
			if stat, err := rows.DiskStat(1, p); string(stat) != want[p] || err != nil {
				t.Errorf("%s: %x, %v; want %x", p, stat, err, want[p])
			}
			return err
		})
	}
	var n, bytes, most int
	err := db.view(t.Context(), func(c *conn) error {
		return c.row("SELECT count(*), sum(length(entries)), max(length(entries)) FROM disk_block").Scan(&n, &bytes, &most)
	})
	if err != nil || most > maxBlock || bytes/n < maxBlock/4 {
		t.Errorf("%d rows of %d bytes in the middle, %d at most: %v", n, bytes/max(n, 1), most, err)
	}
}
