package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is "wsdW" in the header of the file.
const applicationID = 0x77736457

// format is the file's.
func format() (*sqlitefile.Format, error) {
	dir, err := iofs.Sub(migrations, "migrations")
	return &sqlitefile.Format{
		ApplicationID: applicationID,
		Migrations:    dir,
		Code:          map[int]func(context.Context, *sql.Tx) error{10: toBlocks},
		// They can only be set while the file is empty.
		Fresh: []string{"PRAGMA page_size = 4096", "PRAGMA auto_vacuum = INCREMENTAL"},
	}, err
}

// Durability is what a commit waits for.
type Durability int

// The durabilities; see the package's comment.
const (
	Normal Durability = iota // the commit survives the process
	Full                     // the commit survives a power cut

	none Durability = -1 // nothing is waited for: tests that lose no power
)

const (
	// busyTimeout bounds the wait for locks of the file. Only a tool that was started on
	// it by hand can hold one that we want.
	busyTimeout = 5 * time.Second
	// DefaultReaders is how many views run at once.
	DefaultReaders = 4
)

// Config says where the database is and how it works.
type Config struct {
	// Path of the file. Missing directories are made, with mode 0700.
	Path       string
	Durability Durability
	Readers    int          // 0 for DefaultReaders, and for 1 if it is Shared
	Logger     *slog.Logger // nil for none
	// Shared lets other processes have the file open too, those with Shared. Only the log
	// of commands is used then. It makes no reserve: while the disk is full the file cannot
	// be opened.
	Shared bool
	// Full, if set, is called when something failed since the disk is full. It must not
	// block.
	Full func()
}

// A DB is an open database. It is safe for concurrent use.
type DB struct {
	path   string
	lock   *lock
	pool   *sql.DB // for what is done once: migrations, checks
	writer chan *conn
	reader *idle
	conns  []*conn

	id   string
	full func() // nil for nothing
	// tight: there is no reserve. What is written at a time is little.
	tight    atomic.Bool
	reserves bool // there is to be a reserve
	// alone: the index of the log is in memory, since the disk has no room for its file.
	alone bool
	// reserving is held while the reserve is made or removed.
	reserving sync.Mutex

	checkpoints *checkpointer
	recovered   atomic.Bool  // commands that an earlier process of our place has left have ended
	log         *slog.Logger // nil for none

	mu     sync.Mutex
	closed bool
	done   chan struct{} // closed with it
}

// Open opens the database, makes it when it is missing, and brings its schema up to date.
// Errors: [InUseError], and those of package sqlitefile.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open the workspace's store: %w", err)
	}
	db, err := openFile(ctx, path, &cfg, false, false)
	tight := errors.Is(err, sqlitefile.ErrFull)
	if tight && os.Remove(reservePath(path)) == nil {
		db, err = openFile(ctx, path, &cfg, true, false)
	}
	if errors.Is(err, sqlitefile.ErrFull) && !cfg.Shared {
		db, err = openFile(ctx, path, &cfg, true, true)
	}
	if err != nil {
		return nil, err
	}
	if !tight {
		db.KeepReserve()
	}
	return db, nil
}

// openFile is Open. tight and alone are those of the DB.
func openFile(ctx context.Context, path string, cfg *Config, tight, alone bool) (*DB, error) {
	db := &DB{path: path, done: make(chan struct{}), full: cfg.Full, log: cfg.Logger, reserves: cfg.Durability != none && !cfg.Shared, alone: alone}
	db.tight.Store(tight)
	db.checkpoints = newCheckpointer(db)
	if err := db.open(ctx, cfg); err != nil {
		return nil, errors.Join(db.explain("open", err), db.release())
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, cfg *Config) error {
	narrowed, err := sqlitefile.Prepare(db.path)
	if err != nil {
		return err
	}
	if narrowed && cfg.Logger != nil {
		cfg.Logger.InfoContext(ctx, "others could read the workspace's store; its mode was changed", "path", db.path)
	}
	if cfg.Shared {
		db.lock, err = takeSharedLock(ctx, db.path)
	} else {
		db.lock, err = takeLock(ctx, db.path, 0)
	}
	if err != nil {
		return err
	}
	sync := "NORMAL"
	switch cfg.Durability {
	case Full:
		sync = "FULL"
	case none:
		sync = "OFF"
	default:
	}
	options := []string{"_txlock=immediate", "_synchronous=" + sync}
	if db.alone {
		options = append(options, "vfs=unix-excl")
	}
	if cfg.Shared {
		options = append(options, "_pragma=cache_size(-512)") // KiB of each connection
	}
	dsn := sqlitefile.DSN(db.path, busyTimeout, options...)
	// sql.Open only fails for an unknown driver.
	if db.pool, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	f, err := format()
	if err != nil {
		return err
	}
	if err := f.Migrate(ctx, db.pool); err != nil {
		return err
	}
	readers := cfg.Readers
	switch {
	case readers > 0:
	case cfg.Shared:
		readers = 1 // few read a history, and each connection costs every server memory
	default:
		readers = DefaultReaders
	}
	db.writer, db.reader = make(chan *conn, 1), newIdle(readers)
	c, err := db.connect(dsn, writerPragmas)
	if err != nil {
		return err
	}
	db.writer <- c
	if c, err = db.connect(dsn, checkpointPragmas); err != nil {
		return err
	}
	db.checkpoints.conn <- c
	for range readers {
		if c, err = db.connect(dsn, readerPragmas); err != nil {
			return err
		}
		db.reader.put(c)
	}
	var id []byte
	if err := db.pool.QueryRowContext(ctx, "SELECT v FROM meta WHERE k = 'store_id'").Scan(&id); err != nil {
		return err
	}
	db.id = hex.EncodeToString(id)
	db.checkpoints.running.Go(db.checkpoints.run) // ends with db.done; Close waits for it
	return nil
}

// Settings of the connections.
var (
	writerPragmas = []string{
		"PRAGMA wal_autocheckpoint = 0", // that is the checkpointer's work
		fmt.Sprintf("PRAGMA journal_size_limit = %d", logLimit),
		// A statement of many rows keeps the pages that it changes until it ends: not in a file.
		"PRAGMA temp_store = MEMORY",
	}
	// The checkpointer comes back later rather than have others wait.
	checkpointPragmas = []string{"PRAGMA wal_autocheckpoint = 0", "PRAGMA busy_timeout = 0"}
	readerPragmas     = []string{"PRAGMA query_only = 1"}
)

// connect opens a connection that stays until release.
func (db *DB) connect(dsn string, pragmas []string) (*conn, error) {
	dc, err := db.pool.Driver().Open(dsn)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: dc, stmts: map[string]*stmt{}}
	db.conns = append(db.conns, c)
	for _, p := range pragmas {
		if err := c.exec(p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ID is the store's: 32 hexadecimal digits, made with the file.
func (db *DB) ID() string { return db.id }

// Path is the file's absolute path.
func (db *DB) Path() string { return db.path }

// Tree is the store of the file's trees.
func (db *DB) Tree() tree.Store { return treeStore{db} }

// ErrClosed is returned for calls after Close.
var ErrClosed = errors.New("the store is closed")

// Close closes the file and gives the lock up. It waits for calls that are under way.
func (db *DB) Close() error {
	db.mu.Lock()
	again := db.closed
	db.closed = true
	db.mu.Unlock()
	if again {
		return nil
	}
	close(db.done)
	db.checkpoints.running.Wait()
	// Whoever has a connection gives it back.
	for range cap(db.reader.tokens) {
		<-db.reader.tokens
	}
	<-db.writer
	err := db.release()
	db.KeepReserve() // the log has gone, whose room may have been that of the reserve
	return err
}

// release ends what open has begun, however far it came.
func (db *DB) release() error {
	var errs []error
	for _, c := range db.conns {
		errs = append(errs, c.close())
	}
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	if db.lock != nil {
		db.lock.release()
	}
	return db.explain("close", errors.Join(errs...))
}

// explain says which file an error is about.
func (db *DB) explain(doing string, err error) error {
	if _, ok := errors.AsType[*InUseError](err); ok {
		return fmt.Errorf("%s the workspace's store: %w", doing, err)
	}
	err = sqlitefile.Explain(doing, "the workspace's store "+db.path, err)
	if db.full != nil && errors.Is(err, sqlitefile.ErrFull) {
		db.full()
	}
	return err
}

// An idle is the connections that nobody uses. The one that was put back last is taken first: it has its
// statements, and the others use little memory as long as few are needed at once.
type idle struct {
	tokens chan struct{} // one for each of conns

	mu    sync.Mutex
	conns []*conn
}

// newIdle makes an idle without connections. It holds up to most of them.
func newIdle(most int) *idle { return &idle{tokens: make(chan struct{}, most)} }

// take returns a connection to a caller that has received a token.
func (i *idle) take() *conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.conns) - 1
	c := i.conns[last]
	i.conns = i.conns[:last]
	return c
}

func (i *idle) put(c *conn) {
	i.mu.Lock()
	i.conns = append(i.conns, c)
	i.mu.Unlock()
	i.tokens <- struct{}{}
}

// receive receives from a channel, unless the DB is closed or ctx is done.
func receive[T any](ctx context.Context, db *DB, from <-chan T) (x T, err error) {
	select {
	case <-db.done:
		return x, ErrClosed
	case <-ctx.Done():
		return x, ctx.Err()
	default:
	}
	select {
	case x = <-from:
		return x, nil
	case <-db.done:
		return x, ErrClosed
	case <-ctx.Done():
		return x, ctx.Err()
	}
}

// view runs fn in a transaction that reads.
func (db *DB) view(ctx context.Context, fn func(*conn) error) error {
	if _, err := receive(ctx, db, db.reader.tokens); err != nil {
		return err
	}
	c := db.reader.take()
	defer db.reader.put(c)
	return db.transact(c, "read", "BEGIN", fn)
}

// update runs fn in a transaction that writes, alone.
func (db *DB) update(ctx context.Context, fn func(*conn) error) error {
	c, err := receive(ctx, db, db.writer)
	if err != nil {
		return err
	}
	defer func() { db.writer <- c }()
	if err := db.transact(c, "write", "BEGIN IMMEDIATE", fn); err != nil {
		return err
	}
	db.checkpoints.committed(c)
	return nil
}

// transact keeps what fn has done if it returns nil. Its statements are not interrupted:
// they are short, and an end in mid-transaction helps nobody.
func (db *DB) transact(c *conn, doing, begin string, fn func(*conn) error) error {
	if err := c.exec(begin); err != nil {
		return db.explain(doing, err)
	}
	ended := false
	defer func() { // also when fn panics
		if !ended {
			// SQLite may have done so itself; then it has nothing to do.
			_ = c.exec("ROLLBACK")
		}
	}()
	if err := fn(c); err != nil {
		return err
	}
	if err := c.exec("COMMIT"); err != nil {
		return db.explain(doing, err)
	}
	ended = true
	return nil
}

// Check reads the whole file: SQLite's own check, and what must hold among our rows. What
// it finds is sqlitefile.ErrDamaged or tree.ErrDamaged.
func (db *DB) Check(ctx context.Context) error {
	if err := sqlitefile.IntegrityCheck(ctx, db.pool); err != nil {
		return db.explain("check", err)
	}
	if err := db.checkRows(ctx); err != nil {
		return db.explain("check", err)
	}
	var inFiles []string // the trees that directories stand for
	err := db.view(ctx, func(c *conn) error {
		return c.each(func(s scanner) error {
			var name string
			err := s.Scan(&name)
			inFiles = append(inFiles, name)
			return err
		}, "SELECT DISTINCT tree FROM disk_root")
	})
	if err != nil {
		return db.explain("check", err)
	}
	return db.explain("check", tree.New(db.Tree(), tree.Config{}).Check(ctx, inFiles...))
}

// FreePages is how many pages of the file are free.
func (db *DB) FreePages(ctx context.Context) (n int64, err error) {
	err = db.view(ctx, func(c *conn) error { return c.row("PRAGMA freelist_count").Scan(&n) })
	return n, db.explain("look at", err)
}

// shrinkPages is how many pages are given back in one transaction.
const shrinkPages = 2000

// Shrink gives the room of what was deleted back to the file system, a little at a time,
// and takes the log back.
func (db *DB) Shrink(ctx context.Context) error {
	for last := int64(-1); ; {
		var left int64
		err := db.update(ctx, func(c *conn) error {
			// The pragma works off a page with each row that is read.
			pages := shrinkPages
			if db.Tight() {
				pages = tightPages
			}
			if err := c.drain(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages)); err != nil {
				return err
			}
			return c.row("PRAGMA freelist_count").Scan(&left)
		})
		if err != nil {
			return db.explain("shrink", err)
		}
		if left == 0 || left == last { // others may make room as fast as we give it back
			break
		}
		last = left
		if db.Tight() {
			if err := db.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
	return db.checkpoint(ctx)
}
