package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/process/shell/shelltest"
)

func TestRunStore(t *testing.T) {
	shelltest.Run(t, func(t *testing.T) shell.Store { return openCopy(t).Runs() })
}

// Numbers of runs are not used again while events of one that had them may be.
func TestRunNumbers(t *testing.T) {
	path := emptyCopy(t)
	var last int64
	for range 3 {
		db, err := Open(t.Context(), Config{Path: path, Durability: none})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			run, err := db.Runs().Begin(t.Context(), "x", shell.About{}, time.Now())
			if err != nil || run <= last {
				t.Errorf("run %d after %d, %v", run, last, err)
			}
			last = run
		}
		check(t, db)
	}
}

// What must not be among the rows is found.
func TestRunDamage(t *testing.T) {
	for says, damage := range map[string]string{
		"which is not there":         "INSERT INTO run_event VALUES (77 << 32 | 1, 0, 0, x'00')",
		"events of":                  "DELETE FROM run_event WHERE key & 0xffff = 1",
		"does not end with its exit": "UPDATE run_event SET kind = 0 WHERE kind = 2",
		"half an end":                "UPDATE run SET code = NULL",
	} {
		t.Run(says, func(t *testing.T) {
			db, err := Open(t.Context(), Config{Path: emptyCopy(t), Durability: none})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s := db.Runs()
			run, err := s.Begin(t.Context(), "x", shell.About{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			b := shell.Batch{
				Events: []shell.Event{{Seq: 1, Name: shell.Stdout, Data: []byte("x")}, {Seq: 2, Name: shell.Exit}},
				End:    &shell.End{Last: 2, Bytes: 1},
			}
			if err := errors.Join(s.Append(t.Context(), run, &b), db.Check(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := db.update(t.Context(), func(c *conn) error { return c.exec(damage) }); err != nil {
				t.Fatal(err)
			}
			if err := db.Check(t.Context()); !errors.Is(err, sqlitefile.ErrDamaged) || !strings.Contains(err.Error(), says) {
				t.Error(err)
			}
		})
	}
}

// What is asked for while a transaction is under way is done in one, and the failure of
// one is not the others'.
func TestGroup(t *testing.T) {
	db := openCopy(t)
	ctx := t.Context()
	hold := <-db.writer
	var wg sync.WaitGroup
	no := errors.New("no")
	const many = 20
	errs := make([]error, many)
	for i := range many {
		wg.Go(func() {
			errs[i] = db.group.update(context.WithoutCancel(ctx), func(c *conn) error {
				if i == 7 {
					return errors.Join(no, c.exec("DELETE FROM run"))
				}
				return c.exec("INSERT INTO run (id, started_ms) VALUES (?, 0)", fmt.Sprint(i))
			})
		})
	}
	for waiting := 0; waiting < many; {
		db.group.mu.Lock()
		waiting = len(db.group.waiting)
		db.group.mu.Unlock()
	}
	db.writer <- hold
	wg.Wait()
	for i, err := range errs {
		if (i == 7) != errors.Is(err, no) || i != 7 && err != nil {
			t.Errorf("%d: %v", i, err)
		}
		if _, err := db.Runs().Find(ctx, fmt.Sprint(i)); (err == nil) != (i != 7) {
			t.Errorf("%d: %v", i, err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := db.group.update(canceled, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := db.Runs().Recover(ctx, time.Now()); err != nil {
		t.Error(err)
	}
}

// After Close everything fails, and nothing waits.
func TestRunsClosed(t *testing.T) {
	db, err := Open(t.Context(), Config{Path: emptyCopy(t), Durability: none})
	if err != nil {
		t.Fatal(err)
	}
	s := db.Runs()
	run, err := s.Begin(t.Context(), "x", shell.About{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, begin := s.Begin(t.Context(), "y", shell.About{}, time.Now())
	_, find := s.Find(t.Context(), "x")
	_, read := s.Read(t.Context(), run, 0, 1)
	for _, err := range []error{begin, find, read, s.Append(t.Context(), run, &shell.Batch{First: 2}), s.Forget(t.Context(), run)} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}
