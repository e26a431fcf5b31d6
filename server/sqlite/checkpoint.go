package sqlite

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// checkpointPages is the length of what the log has and the file has not, in pages, at
	// which it is written to the file beside everything else.
	checkpointPages = 4096
	// maxLogPages is the length of the log at which commits wait until all of it is in the
	// file, so that it begins anew: it grows no further while it is written as fast as it is
	// copied.
	maxLogPages = 2 * checkpointPages
	// logLimit is what is left of a log that was longer, in bytes.
	logLimit = 64 << 20
	// quietTime is how long nothing is committed before the log is cut to nothing. While
	// little is, quietPages in that time at most, it is cut once it is longer than quietBytes.
	quietTime  = 5 * time.Second
	quietPages = 256
	quietBytes = 4 << 20
)

// A checkpointer moves what is in the log to the file, on a connection and a goroutine of
// its own: commits do not wait for that.
type checkpointer struct {
	db      *DB
	conn    chan *conn    // of the caller that moves the log; taken after the writer's, if both are
	wake    chan struct{} // holds a token when there is something to do
	running sync.WaitGroup

	noted   atomic.Bool  // the goroutine knows that something was committed
	commits atomic.Int64 // so far
	frames  atomic.Int64 // pages in the log after the last one
}

func newCheckpointer(db *DB) *checkpointer {
	return &checkpointer{db: db, conn: make(chan *conn, 1), wake: make(chan struct{}, 1)}
}

// logSize is how many pages the log has, and how many of those the file has not.
func logSize(c *conn) (frames, left int64, err error) {
	var busy, done int64
	err = c.row("PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &frames, &done)
	return frames, frames - done, err
}

// committed is called by the writer, which has c, after each commit. The commit stands
// whatever becomes of the log.
func (k *checkpointer) committed(c *conn) {
	frames, left, err := logSize(c)
	if err != nil {
		k.failed(err)
		return
	}
	k.commits.Add(1)
	k.frames.Store(frames)
	most := int64(maxLogPages)
	if k.db.Tight() {
		most = tightPages
	}
	if frames >= most && left > 0 {
		own := <-k.conn // the goroutine that has it waits for nothing, and gives it back
		k.failed(own.drain("PRAGMA wal_checkpoint(PASSIVE)"))
		k.conn <- own
	}
	if !k.noted.Swap(true) || left >= checkpointPages {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// failed reports an error to Config.Full and the log, if there is one.
func (k *checkpointer) failed(err error) {
	if err = k.db.explain("move the log into", err); err != nil && k.db.log != nil {
		k.db.log.Warn("the log of the store is not moved into the file; it is tried again", "err", err)
	}
}

// run works until the DB is closed.
func (k *checkpointer) run() {
	quiet := time.NewTimer(0)
	<-quiet.C
	defer quiet.Stop()
	armed := false
	var commits, frames int64
	for {
		select {
		case <-k.db.done:
			return
		case <-k.wake:
			k.move()
			if !armed {
				armed = true
				commits, frames = k.commits.Load(), k.frames.Load()
				quiet.Reset(quietTime)
			}
		case <-quiet.C:
			k.noted.Store(false)
			nowCommits, nowFrames := k.commits.Load(), k.frames.Load()
			still := nowCommits == commits
			calm := nowFrames >= frames && nowFrames-frames <= quietPages && k.bytes() > quietBytes
			commits, frames = nowCommits, nowFrames
			cut := (still || calm) && k.cut()
			if armed = !still || !cut; armed {
				k.noted.Store(true)
				quiet.Reset(quietTime)
			}
		}
	}
}

// bytes is the length of the log's file.
func (k *checkpointer) bytes() int64 {
	info, err := os.Stat(k.db.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// move moves what is in the log to the file, if that is much.
func (k *checkpointer) move() {
	c := <-k.conn
	defer func() { k.conn <- c }()
	_, left, err := logSize(c)
	if err == nil && left >= checkpointPages {
		err = c.drain("PRAGMA wal_checkpoint(PASSIVE)")
	}
	k.failed(err)
}

// cut moves all of the log to the file and leaves nothing of it. It is false if somebody
// reads or writes.
func (k *checkpointer) cut() bool {
	c := <-k.conn
	defer func() { k.conn <- c }()
	// The copying and the waiting for the disk are done before the writer is kept from its work.
	if err := c.drain("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		k.failed(err)
		return false
	}
	select {
	case w := <-k.db.writer:
		defer func() { k.db.writer <- w }()
	default:
		return false
	}
	var busy, frames, done int64
	err := c.row("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &done)
	k.failed(err)
	return err == nil && busy == 0
}

// checkpoint takes the log back into the file.
func (db *DB) checkpoint(ctx context.Context) error {
	c, err := receive(ctx, db, db.writer)
	if err != nil {
		return err
	}
	defer func() { db.writer <- c }()
	own := <-db.checkpoints.conn
	defer func() { db.checkpoints.conn <- own }()
	// A view that is open keeps a part of the log; that comes back another time.
	return db.explain("shrink", c.drain("PRAGMA wal_checkpoint(TRUNCATE)"))
}
