package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An empty file, or none, becomes a store; what is asked of every connection holds.
func TestNewFile(t *testing.T) {
	for name, prepare := range map[string]func(string) error{
		"no file":      func(string) error { return nil },
		"no directory": func(path string) error { return os.Remove(filepath.Dir(path)) },
		"empty file":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			// A path that would be read as options or be decoded if it were not escaped.
			dir := filepath.Join(t.TempDir(), "a?mode=ro", "b%41#c")
			path := filepath.Join(dir, "workspace.db")
			if err := errors.Join(os.MkdirAll(dir, 0o700), prepare(path)); err != nil {
				t.Fatal(err)
			}
			db := open(t, path)
			_, tr := theTree(t, db)
			write(t, tr, "/f", "x")
			for _, file := range []string{path, path + "-wal", path + "-shm", path + ".lock"} {
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", file, info, err)
				}
			}
			<-db.reader.tokens
			writer, reader, checkpoints := <-db.writer, db.reader.take(), <-db.checkpoints.conn
			for c, pragmas := range map[*conn]map[string]string{
				writer: {
					"foreign_keys": "1", "journal_mode": "wal", "synchronous": "1", "busy_timeout": "5000", "auto_vacuum": "2",
					"page_size": "4096", "journal_size_limit": strconv.Itoa(logLimit), "wal_autocheckpoint": "0",
					"query_only": "0", "temp_store": "2", "user_version": steps(t), "application_id": strconv.Itoa(applicationID),
				},
				checkpoints: {"synchronous": "1", "busy_timeout": "0", "wal_autocheckpoint": "0", "query_only": "0"},
				reader:      {"foreign_keys": "1", "query_only": "1", "busy_timeout": "5000"},
			} {
				for pragma, want := range pragmas {
					var got sql.NullString
					if err := c.row("PRAGMA " + pragma).Scan(&got); err != nil || got.String != want {
						t.Errorf("%s is %s, %v; want %s", pragma, got.String, err, want)
					}
				}
			}
			db.writer <- writer
			db.checkpoints.conn <- checkpoints
			db.reader.put(reader)
			if len(db.ID()) != 32 || db.Path() != path {
				t.Error(db.ID(), db.Path())
			}
		})
	}
}

// steps is how many migrations there are.
func steps(t *testing.T) string {
	t.Helper()
	f, err := format()
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Steps()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(n)
}

// The tables are those that the specification lists, to the column, and those of fs/disk.
func TestSchema(t *testing.T) {
	db := open(t, temporary(t))
	want := map[string]string{
		"meta": "k v", "ns": "id name root rev files dirs bytes config base",
		"node": "ino ns kind mode size nlink mtime_ns btime_ns rev mime target manifest mount stub only",
		"name": "parent name child ns rev", "tomb": "ns path rev prior", "moved": "ns rev old_path ino",
		"part": "ino idx hash size", "chunk": "hash size loc enc seen_ms dead_ms object at", "chunk_data": "id hash bytes",
		"path_object": "ino key want_key etag size", "peer": "ns id push_rev push_path fetch_rev fetch_path seen_ms",
		"lease": "ns path token owner exclusive subtree fence expires_ms", "session": "id ns cwd env created_ms used_ms",
		"sqlite_sequence": "name seq",
		"disk_root":       "id tree mount state", "disk_block": "root dir first entries", "disk_journal": "id root paths",
		"log":       "log owner origin id session client peer pid argv cwd tty sandbox started_ms evicted hidden exit ended_ms ends last bytes printed",
		"log_event": "key at_ms kind value",
	}
	err := db.view(t.Context(), func(c *conn) error {
		var tables []string
		err := c.each(func(s scanner) error {
			var name string
			err := s.Scan(&name)
			tables = append(tables, name)
			return err
		}, "SELECT name FROM sqlite_schema WHERE type = 'table'")
		for _, table := range tables {
			var columns []string
			err = errors.Join(err, c.each(func(s scanner) error {
				var name string
				err := s.Scan(&name)
				columns = append(columns, name)
				return err
			}, "SELECT name FROM pragma_table_info('"+table+"')"))
			if got := strings.Join(columns, " "); got != want[table] {
				t.Errorf("%s has %s, want %s", table, got, want[table])
			}
			delete(want, table)
		}
		// Each migration says its number in meta as well, for people.
		var inMeta, inFile int
		f, err2 := format()
		n, err3 := f.Steps()
		err = errors.Join(err, err2, err3, c.row("SELECT v FROM meta WHERE k = 'schema_version'").Scan(&inMeta), c.row("PRAGMA user_version").Scan(&inFile))
		if inMeta != n || inFile != n {
			t.Errorf("schema %d, %d; there are %d migrations", inMeta, inFile, n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestFull(t *testing.T) {
	db, err := Open(t.Context(), Config{Path: temporary(t), Durability: Full, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer check(t, db)
	err = db.update(t.Context(), func(c *conn) error {
		var level int
		if err := c.row("PRAGMA synchronous").Scan(&level); err != nil || level != 2 {
			t.Errorf("synchronous is %d, %v", level, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	database := func(name, text string) string {
		path := filepath.Join(dir, name)
		if _, err := raw(t, path).Exec(text); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name, path string
		is         error
		says       string
	}{
		{"noise", file("noise", bytes.Repeat([]byte("not a database. "), 500)), sqlitefile.ErrDamaged, "restore a backup"},
		{"foreign", database("foreign", "CREATE TABLE t (a)"), sqlitefile.ErrForeign, "another program"},
		{"newer", database("newer", fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1000", applicationID)), sqlitefile.ErrNewer, "schema 1000"},
		{"directory", dir, nil, "is not a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // the lock is free again
				db, err := Open(t.Context(), Config{Path: tt.path})
				if err == nil {
					db.Close()
					t.Fatal("opened")
				}
				if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), tt.path) {
					t.Error(err)
				}
			}
		})
	}
}

func TestClosesFileToOthers(t *testing.T) {
	path := temporary(t)
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	db, err := Open(t.Context(), Config{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer check(t, db)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(log.String(), path) {
		t.Error(info, err, log.String())
	}
}

// What was written is there after a restart: revisions, cursors, identity.
func TestReopen(t *testing.T) {
	path := temporary(t)
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	_, tr := theTree(t, db)
	rev := write(t, tr, "/d/f", "x")
	peer := tree.Peer{ID: "p", Fetch: tree.AtPath(7, "/x"), Push: tree.At(rev)}
	if _, err := tr.Update(t.Context(), func(e *tree.Edit) error { peer, err = e.SetPeer(peer); return err }); err != nil {
		t.Fatal(err)
	}
	id := db.ID()
	check(t, db)
	if err := db.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	db = open(t, path)
	f, tr := theTree(t, db)
	if info, err := tr.Info(t.Context()); err != nil || info.Rev != rev || db.ID() != id {
		t.Error(info, err, db.ID())
	}
	if got, err := tr.Peer(t.Context(), "p"); err != nil || got != peer {
		t.Error(got, err)
	}
	if next := write(t, tr, "/d/g", "y"); next != rev+1 {
		t.Errorf("revision %d after %d", next, rev)
	}
	if text, err := tr.ReadFile(t.Context(), "/d/f", 10); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	// Another store of the same name begins above this one's revisions.
	other, err := tree.New(open(t, temporary(t)).Tree(), tree.Config{}).Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	info, err := other.Info(t.Context())
	if err != nil || info.Rev <= rev+1 {
		t.Error(info, err)
	}
	_ = f
}

func TestClosed(t *testing.T) {
	db, err := Open(t.Context(), Config{Path: temporary(t)})
	if err != nil {
		t.Fatal(err)
	}
	f, tr := theTree(t, db)
	in, out, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := tr.Update(context.Background(), func(e *tree.Edit) error {
			close(in)
			<-out
			return e.Mkdir("/late", 0o755, false)
		})
		ended <- err
	}()
	<-in
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	<-db.done
	// New calls are refused at once; what is under way ends as it would have.
	if _, err := tr.Info(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := f.PutChunks(t.Context(), tree.Data{Hash: tree.Sum([]byte("x")), Bytes: []byte("x")}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	close(out)
	if err := errors.Join(<-ended, <-closed); err != nil {
		t.Error(err)
	}
	_, tr = theTree(t, open(t, db.Path()))
	if _, err := tr.Stat(t.Context(), "/late"); err != nil {
		t.Error(err)
	}
}

// Whoever waits for the writer gives up with its context; the others get their turn in
// the order in which they came. Readers wait for nobody.
func TestWaiting(t *testing.T) {
	db := open(t, temporary(t))
	_, tr := theTree(t, db)
	in, out, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := tr.Update(context.Background(), func(*tree.Edit) error { close(in); <-out; return nil })
		ended <- err
	}()
	<-in
	if _, err := tr.Info(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := tr.Update(ctx, func(*tree.Edit) error { return errors.New("ran") })
		waits <- err
	}()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(out)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The log stays short while much is written beside a change stream that nobody reads and
// a file that is half read; what was deleted is given back.
func TestC045LogStaysSmall(t *testing.T) {
	t.Parallel()
	path := temporary(t)
	db := open(t, path)
	clock := &fakeClock{}
	f := tree.New(db.Tree(), tree.Config{Now: clock.now})
	tr, err := f.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	write(t, tr, "/first", "x")
	stream, err := tr.Changes(t.Context(), tree.ChangesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := tr.Open(t.Context(), "/first")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	text := bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16)
	const files, rounds = 100, 4
	var longest int64
	for i := range files * rounds {
		copy(text, fmt.Sprintf("%08d", i))
		if _, err := tr.WriteFile(t.Context(), fmt.Sprintf("/f%d", i%files), bytes.NewReader(text), tree.File{}); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, size(t, path+"-wal"))
	}
	if longest > 40<<20 {
		t.Errorf("the log had %d bytes", longest)
	}
	if size(t, path) < files*(rounds-2)*64<<10 {
		t.Errorf("the file has only %d bytes: it tests nothing", size(t, path))
	}
	for range 2 {
		clock.advance()
		if _, err := f.Collect(t.Context(), tree.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Shrink(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := size(t, path); got > (files+20)*(72<<10) {
		t.Errorf("the file has %d bytes", got)
	}
	if got := size(t, path+"-wal"); got != 0 {
		t.Errorf("the log has %d bytes", got)
	}
	if list, err := stream.Next(t.Context(), 10); err != nil || len(list) != 1 || list[0].Path != "/first" {
		t.Error(list, err)
	}
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Damage is found, whatever it is.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ damage, says string }{
		"root with a name":    {"INSERT INTO name VALUES (2, 'x', 1, 1, 2)", "the root"},
		"no root":             {"UPDATE ns SET root = 999", "no root"},
		"name of nothing":     {"INSERT INTO name VALUES (1, 'x', 999, 1, 1)", "not both there"},
		"name in a file":      {"UPDATE name SET parent = (SELECT ino FROM node WHERE kind = 1) WHERE name = 'l'", "no directory"},
		"name with a slash":   {"UPDATE name SET name = 'a/b' WHERE name = 'l'", "a name in node"},
		"no name":             {"DELETE FROM name WHERE name = 'l'", "has no name"},
		"links":               {"UPDATE node SET nlink = 2 WHERE kind = 3", "1 names and says 2"},
		"cycle":               {"UPDATE name SET parent = (SELECT child FROM name WHERE name = 'e') WHERE name = 'd'", "in itself"},
		"two names of one":    {"INSERT INTO name SELECT 1, 'x', child, ns, rev FROM name WHERE name = 'd'", "2 names"},
		"size":                {"UPDATE node SET size = 5 WHERE manifest IS NOT NULL", "another manifest"},
		"size of one part":    {"UPDATE node SET size = 5 WHERE only IS NOT NULL", "bytes; there are"},
		"manifest":            {"UPDATE node SET manifest = randomblob(32) WHERE manifest IS NOT NULL", "another manifest"},
		"manifest of one":     {"UPDATE node SET manifest = randomblob(32) WHERE only IS NOT NULL", "its only part, and a manifest"},
		"one part and more":   {"INSERT INTO part SELECT ino, 1, only, size FROM node WHERE only IS NOT NULL", "a hash of its only part, and rows of parts"},
		"one part twice":      {"INSERT INTO part SELECT ino, 0, only, size FROM node WHERE only IS NOT NULL", "a hash of its only part, and rows of parts"},
		"one part of a link":  {"UPDATE node SET only = randomblob(32) WHERE kind = 3", "no file"},
		"part of nothing":     {"INSERT INTO part SELECT 999, 0, hash, size FROM chunk LIMIT 1", "no file"},
		"hole":                {"UPDATE part SET idx = idx + 2", "has part 2"},
		"unknown chunk":       {"UPDATE part SET hash = randomblob(32)", "which is not there"},
		"unknown only chunk":  {"UPDATE node SET only = randomblob(32) WHERE only IS NOT NULL", "which is not there"},
		"chunk without bytes": {"DELETE FROM chunk_data", "is said to be"},
		"bytes without chunk": {"INSERT INTO chunk_data (hash, bytes) VALUES (randomblob(32), x'00')", "is said to be"},
		"short bytes":         {"UPDATE chunk_data SET bytes = x''", "has 0 bytes of 1"},
		"revision of a node":  {"UPDATE node SET rev = 1 << 51 WHERE kind = 1", "has revision"},
		"revision of a name":  {"UPDATE name SET rev = 1 << 51 WHERE name = 'd'", "has revision"},
		"revision of a tomb":  {"UPDATE tomb SET rev = 1 << 51", "a tomb"},
		"revision of a peer":  {"INSERT INTO peer VALUES (1, 'p', 1 << 51, NULL, 0, NULL, 0)", "peer p"},
		"counts":              {"UPDATE ns SET files = 7", "counts 7 files"},
		"name that is lost":   {"UPDATE node SET rev = rev - 1 WHERE ino = (SELECT child FROM name WHERE name = 'e')", "is younger than node"},
		"cut block":           {"UPDATE disk_block SET entries = substr(entries, 1, 5)", "is cut"},
		"block out of order":  {"UPDATE disk_block SET first = 'z'", "is not where it belongs"},
		"move of nothing":     {"INSERT INTO moved VALUES (1, 1, '/x', 999)", "which cannot be"},
		"mode":                {"UPDATE node SET mode = 1 << 20 WHERE kind = 1", "mode"},
		"target":              {"UPDATE node SET target = NULL WHERE kind = 3", "no target"},
		"stub with content":   {"UPDATE node SET stub = 1 WHERE kind = 1", "is a stub"},
		"foreign key":         {"PRAGMA foreign_keys = 0; UPDATE node SET ns = 9 WHERE kind = 3", "foreign_key_check"},
	} {
		t.Run(name, func(t *testing.T) {
			path := emptyCopy(t)
			db, err := Open(t.Context(), Config{Path: path, Durability: none, Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			_, tr := theTree(t, db)
			write(t, tr, "/d/e/f", "x")
			write(t, tr, "/two", strings.Repeat("2", tree.ChunkSize+1))
			_, err = tr.Update(t.Context(), func(e *tree.Edit) error {
				rows, _ := e.Tx().(disk.Rows)
				r := disk.Root{Tree: "elsewhere", Mount: "/", State: []byte{}}
				err := rows.PutDiskRoot(&r)
				return errors.Join(err, rows.PutDiskStats(r.ID, []disk.Row{{Path: "a", Stat: []byte("stat")}}),
					e.Symlink("f", "/d/l"), e.Mkdir("/gone", 0o755, false), e.Remove("/gone", false))
			})
			if err != nil {
				t.Fatal(err)
			}
			check(t, db)
			if _, err := raw(t, path).Exec(tt.damage); err != nil {
				t.Fatal(err)
			}
			if db, err = Open(t.Context(), Config{Path: path, Durability: none, Readers: 1}); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			err = db.Check(t.Context())
			if !errors.Is(err, tree.ErrDamaged) && !errors.Is(err, sqlitefile.ErrDamaged) || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Error(err)
			}
		})
	}
	t.Run("bytes", func(t *testing.T) {
		path := temporary(t)
		db, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		f, tr := theTree(t, db)
		write(t, tr, "/f", "x")
		if err := db.update(t.Context(), func(c *conn) error { return c.exec("UPDATE chunk_data SET bytes = x'00'") }); err != nil {
			t.Fatal(err)
		}
		if n, err := f.Verify(t.Context()); n != 1 || !errors.Is(err, tree.ErrDamaged) {
			t.Error(n, err)
		}
		if _, err := tr.ReadFile(t.Context(), "/f", 10); !errors.Is(err, tree.ErrDamaged) {
			t.Error(err)
		}
	})
}

// Views that run one after the other use one connection.
func TestIdleReaders(t *testing.T) {
	db := open(t, temporary(t))
	var first *conn
	for range 3 * DefaultReaders {
		err := db.view(t.Context(), func(c *conn) error {
			if first == nil {
				first = c
			}
			if c != first {
				t.Error("another connection is used while the first one is idle")
			}
			return db.view(t.Context(), func(c *conn) error {
				if c == first {
					t.Error("a connection that is in use is taken")
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
