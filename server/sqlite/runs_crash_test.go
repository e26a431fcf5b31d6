package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/shell"
)

// crashRuns is how many runs the child "runs" has at a time.
const crashRuns = 4

// runCommands has commands count for ever, and says "got RUN SEQ" of each event that was
// delivered, and "began ID" of each short run after the others.
func runCommands(ctx context.Context, db *DB) error {
	s, err := openShell(ctx, db)
	if err != nil {
		return err
	}
	defer s.Close()
	failed := make(chan error, 2*crashRuns)
	var mu sync.Mutex
	say := func(args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(args...)
	}
	for i := range crashRuns {
		_, events, err := s.Exec(ctx, shell.Request{ID: strconv.Itoa(i), Command: "i=0; while :; do i=$((i+1)); echo $i; done"})
		if err != nil {
			return err
		}
		go func() { // ends with the process
			for {
				e, err := events.Next(ctx)
				if err != nil {
					failed <- err
					return
				}
				say("got", i, e.Seq)
			}
		}()
	}
	for n := 0; ; n++ {
		id := fmt.Sprint("short", n)
		_, events, err := s.Exec(ctx, shell.Request{ID: id, Command: "echo hi"})
		if err != nil {
			return err
		}
		say("began", id)
		for code := -1; ; {
			e, err := events.Next(ctx)
			if errors.Is(err, io.EOF) && code == 0 {
				break
			}
			if err != nil {
				return err
			}
			if e.Name == shell.Exit {
				say("ended", id)
				code = e.Code
			}
		}
		select {
		case err := <-failed:
			return err
		default:
		}
	}
}

// A server that is killed while commands print loses nothing that it has delivered: the
// log of each run is a beginning of what that has printed, without a gap, and has an end.
func TestRunsKilled(t *testing.T) {
	t.Parallel()
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	path := temporary(t)
	for round := range rounds {
		cmd, lines, in := start(t, "runs", path)
		// Early, or after a short run has ended.
		delay := time.Duration(1+round*13) * time.Millisecond
		after := time.AfterFunc(time.Hour, func() { cmd.Process.Kill() })
		if round%2 == 0 {
			after.Reset(delay)
		}
		delivered := make(map[int]uint64)
		var began, ended []string
		for lines.Scan() {
			var run int
			var seq uint64
			var id string
			if n, _ := fmt.Sscanf(lines.Text(), "got %d %d", &run, &seq); n == 2 {
				delivered[run] = seq
			} else if n, _ := fmt.Sscanf(lines.Text(), "began %s", &id); n == 1 {
				began = append(began, id)
			} else if n, _ := fmt.Sscanf(lines.Text(), "ended %s", &id); n == 1 {
				if ended = append(ended, id); len(ended) == 1 && round%2 == 1 {
					after.Reset(delay)
				}
			} else {
				t.Errorf("it says %q", lines.Text())
			}
		}
		after.Stop()
		in.Close()
		cmd.Wait()

		db, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		s := newShell(t, db)
		for run, seq := range delivered {
			events, err := s.GetExec(t.Context(), strconv.Itoa(run), shell.After{})
			if err != nil {
				t.Fatalf("round %d, run %d: %v", round, run, err)
			}
			last, text, code := replay(t, events)
			if last <= seq || code != -1 {
				t.Errorf("round %d, run %d: event %d was delivered, the log ends with %d, code %d", round, run, seq, last, code)
			}
			if want := counted(len(text)); !bytes.Equal(text, want) {
				t.Errorf("round %d, run %d: the log is not what was printed", round, run)
			}
		}
		// What was answered is known, and what was told of stays.
		for _, id := range began {
			if _, err := s.GetExec(t.Context(), id, shell.After{}); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
		for _, id := range ended {
			events, err := s.GetExec(t.Context(), id, shell.After{})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if _, text, code := replay(t, events); string(text) != "hi\n" || code != 0 {
				t.Errorf("round %d, %s: %q, code %d", round, id, text, code)
			}
		}
		if round%2 == 1 && len(ended) == 0 {
			t.Errorf("round %d: nothing has ended", round)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check(t, db)
	}
}

// counted is the first size bytes of what the commands print.
func counted(size int) []byte {
	var b []byte
	for i := 1; len(b) < size; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b[:size]
}

// replay follows a run from its beginning to its end.
func replay(t *testing.T, events shell.Events) (last uint64, text []byte, code int) {
	t.Helper()
	defer events.Close()
	for {
		e, err := events.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return last, text, code
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Fatalf("event %d follows %d", e.Seq, last)
		}
		last, text = e.Seq, append(text, e.Data...)
		if e.Name == shell.Exit {
			code = e.Code
		}
	}
}
