package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// asBefore makes the store one of a wsd that had no form for bytes in names: rows with one of some names
// have the name as it is.
func (b *bench) asBefore(t *testing.T, names ...string) {
	t.Helper()
	db := b.toSchema9(t)
	exec := func(text string, args ...any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), text, args...)
		b.must(err)
	}
	for _, name := range names {
		for _, column := range []string{"name.name", "node.target", "tomb.path", "moved.old_path", "disk_dir.path", "disk_entry.name"} {
			table, column := column[:len(column)-len(filepath.Ext(column))], filepath.Ext(column)[1:]
			exec("UPDATE "+table+" SET "+column+" = replace("+column+", ?1, ?2) WHERE instr("+column+", ?1)", rawname.Encode(name), name)
		}
	}
	exec("UPDATE meta SET v = 8 WHERE k = 'schema_version'")
	exec("PRAGMA user_version = 8")
	b.must(db.Close())
}

// F3: real names with characters that stand for bytes now are in a store of before as they are. They
// get the form that names have now, also where that form was none of any name.
func TestF3StoreWithNamesOfBefore(t *testing.T) {
	const one, several, dir = "p\U0010FEE9", "é\U0010FEC3\U0010FEA9 x", "\U0010FE80\U0010FEBF\U0010FEC0\U0010FEFF"
	both(t, func(t *testing.T, b *bench) {
		for _, err := range []error{
			os.WriteFile(filepath.Join(b.dir, one), []byte("1"), 0o644),
			os.WriteFile(filepath.Join(b.dir, several), []byte("2"), 0o644),
			os.MkdirAll(filepath.Join(b.dir, dir, "sub"), 0o755),
			os.WriteFile(filepath.Join(b.dir, dir, several), []byte("3"), 0o644),
			os.WriteFile(filepath.Join(b.dir, dir, "sub", "f"), []byte("4"), 0o644),
			os.Symlink(several, filepath.Join(b.dir, "link")),
			os.WriteFile(filepath.Join(b.dir, "gone"+several), []byte("5"), 0o644),
		} {
			b.must(err)
		}
		b.settle()
		b.must(os.Remove(filepath.Join(b.dir, "gone"+several)))
		b.settle()
		want := map[string]string{
			rawname.Encode(one): "file 0644 1", rawname.Encode(several): "file 0644 2", rawname.Encode(dir): "dir 0755",
			rawname.Encode(dir) + "/" + rawname.Encode(several): "file 0644 3", rawname.Encode(dir) + "/sub": "dir 0755",
			rawname.Encode(dir) + "/sub/f": "file 0644 4", "link": "link " + rawname.Encode(several),
		}
		b.want(want)
		rev := b.rev()
		b.close()
		b.asBefore(t, one, several, dir)
		b.open()
		b.want(want)
		b.wantSkipped()
		b.wantNotUTF8()
		b.told(rev) // nothing of it is new
		e, err := b.tree.Entry(t.Context(), "/workspace/"+rawname.Encode("gone"+several))
		if err != nil || e.Kind != tree.KindDelete {
			t.Errorf("what was removed is %+v, %v", e, err)
		}
		b.reopen()
		b.want(want)
	})
}

// A store without such names is left as it is.
func TestF3StoreOfBeforeIsLeft(t *testing.T) {
	b := newBench(t, disk.Config{})
	for _, name := range []string{"a", "é", "\U0010FE7F", "\U0010FF00", "d/😀"} {
		b.write(name, name)
	}
	b.settle()
	want, rev := b.inTree(), b.rev()
	b.close()
	b.asBefore(t)
	b.open()
	b.want(want)
	b.told(rev)
}
