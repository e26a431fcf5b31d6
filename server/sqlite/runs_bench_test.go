package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
)

// A loggedShell is a Shell with the Recorder of its logs.
type loggedShell struct {
	*shell.Shell
	rec *eventlog.Recorder
}

func openShell(ctx context.Context, db *DB) (*loggedShell, error) {
	rec, err := eventlog.Open(ctx, eventlog.Config{Store: db.Log()})
	if err != nil {
		return nil, err
	}
	s, err := shell.New(shell.Config{Recorder: rec, Dir: func(string) (string, error) { return "/", nil }})
	return &loggedShell{s, rec}, err
}

func (s *loggedShell) Close() error { return errors.Join(s.Shell.Close(), s.rec.Close()) }

func newShell(tb testing.TB, db *DB) *loggedShell {
	tb.Helper()
	s, err := openShell(tb.Context(), db)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// execute runs a command to its end and says how much it has printed.
func execute(tb testing.TB, s *loggedShell, command string) (size int) {
	tb.Helper()
	_, events, err := s.Exec(context.Background(), shell.Request{Command: command})
	if err != nil {
		tb.Fatal(err)
	}
	defer events.Close()
	for {
		e, err := events.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return size
		}
		if err != nil {
			tb.Fatal(err)
		}
		size += len(e.Data)
	}
}

// BenchmarkRunOutput is output of one command from its pipe through the log to a follower:
// all of it is logged, or the first 16 MiB.
func BenchmarkRunOutput(b *testing.B) {
	for _, mib := range []int{3, 15, 256} {
		b.Run(fmt.Sprint(mib, "MiB"), func(b *testing.B) {
			db := open(b, temporary(b))
			s := newShell(b, db)
			defer s.Close()
			b.SetBytes(int64(mib) << 20)
			command := fmt.Sprintf("head -c %d /dev/zero", mib<<20)
			for b.Loop() {
				if n := execute(b, s, command); n != mib<<20 {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkRun is short commands, one after the other and side by side.
func BenchmarkRun(b *testing.B) {
	b.Run("one", func(b *testing.B) {
		s := newShell(b, open(b, temporary(b)))
		defer s.Close()
		for b.Loop() {
			execute(b, s, "echo hi")
		}
	})
	b.Run("parallel", func(b *testing.B) {
		s := newShell(b, open(b, temporary(b)))
		defer s.Close()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				execute(b, s, "echo hi")
			}
		})
	})
}
