package disk

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Stats come back as they were, in any order, and so does what is none.
func TestSqueezedComeBack(t *testing.T) {
	file := stat{kind: tree.KindFile, ino: 7, size: 9, mtime: 1_796_024_469_117_949_806, ctime: 1_796_024_469_117_949_806, btime: 1_796_024_469_117_949_806, mode: 0o100644}
	next := file
	next.ino, next.mtime, next.ctime = 8, file.mtime+5, file.ctime+70
	older := next
	older.mtime, older.btime, older.flags = 499_162_500_000_000_000, 0, again|linked
	far := stat{kind: tree.KindDir, ino: math.MaxUint64, dev: math.MaxUint64, size: math.MaxInt64, mtime: math.MinInt64, ctime: math.MaxInt64, btime: math.MinInt64, mode: math.MaxUint16, flags: 255}
	var rows [][]byte
	for _, s := range []*stat{&file, &next, &older, &file, &far, &next, {}, &file, &file, &older, &far, &far} {
		rows = append(rows, s.encode())
	}
	rows = append(rows, nil, []byte("x"), bytes.Repeat([]byte{0x80}, 300), append(file.encode(), 0), append([]byte{1, 0, 0x80, 0}, file.encode()...), next.encode())
	var in, out Squeezed
	var all []byte
	for _, row := range rows {
		all = in.Append(all, row)
	}
	for cut := range all { // never a panic
		var q Squeezed
		for rest, err := all[:cut], error(nil); err == nil && len(rest) > 0; {
			_, rest, err = q.Next(rest)
		}
	}
	for i, want := range rows {
		got, rest, err := out.Next(all)
		if !bytes.Equal(got, want) || err != nil {
			t.Fatalf("row %d is %x, %v; want %x", i, got, err, want)
		}
		all = rest
	}
	if len(all) > 0 {
		t.Errorf("%x is left", all)
	}
	for _, b := range [][]byte{nil, {255}, {nothingElse}, {notAStat, 9, 1}, {notAStat}, {0}, {asLast, 1, 1}} {
		if _, _, err := new(Squeezed).Next(b); !errors.Is(err, tree.ErrDamaged) {
			t.Errorf("%x: %v", b, err)
		}
	}
}
