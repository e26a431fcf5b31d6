package process_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// recordedVar names the database of the helper "recorded".
const recordedVar = "WSD_PROCESS_TEST_DB"

func init() { helpers["recorded"] = recordForEver }

// teller says "exited ID" of each process that has.
type teller struct{ exited chan string }

func (n teller) Notify(_ context.Context, method string, params any) error {
	if method == protocol.NotifyProcessExited {
		id := params.(*protocol.ExitedParams).ProcessID
		fmt.Println("exited", id)
		n.exited <- id
	}
	return nil
}

// recordForEver runs short processes one after the other, beside one that counts.
func recordForEver() error {
	db, err := sqlite.Open(context.Background(), sqlite.Config{Path: os.Getenv(recordedVar)})
	if err != nil {
		return err
	}
	rec, err := eventlog.Open(context.Background(), eventlog.Config{Store: db.Log()})
	if err != nil {
		return err
	}
	n := teller{make(chan string, 1)}
	s := process.NewService(n, process.Config{Recorder: rec, Durable: true})
	start := func(id, command string) error {
		_, err := process.StartOn(s, &protocol.StartParams{ProcessID: id, Argv: []string{"/bin/sh", "-c", command}, Cwd: "file:///"})
		return err
	}
	if err := start("counting", "i=0; while :; do i=$((i+1)); echo $i; done"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := start(strconv.Itoa(i), fmt.Sprintf("echo %d; exit %d", i, i%100)); err != nil {
			return err
		}
		<-n.exited
	}
}

// A server that is killed at any moment has every exit that it has told of, and the output
// before it, and says of what still ran that it was interrupted.
func TestRecordedKilled(t *testing.T) {
	t.Parallel()
	rounds := 3
	if testing.Short() {
		rounds = 2
	}
	path := filepath.Join(t.TempDir(), "db")
	for round := range rounds {
		cmd := helper(t, "recorded")
		cmd.Env = append(cmd.Env, recordedVar+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var told []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			id, ok := strings.CutPrefix(lines.Text(), "exited ")
			if !ok {
				t.Errorf("it says %q", lines.Text())
			}
			if told = append(told, id); len(told) == 1+round*5 {
				_ = cmd.Process.Kill() // while the next one is on its way
			}
		}
		_ = cmd.Wait()

		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: db.Log()})
		if err != nil {
			t.Fatal(err)
		}
		s, read := serve(rec, "s")
		for i, id := range told {
			r, err := read(id)
			if err != nil || r.ExitCode == nil || *r.ExitCode != i%100 || r.Failure != nil || len(r.Chunks) != 1 || string(r.Chunks[0].Chunk) != id+"\n" {
				t.Errorf("round %d: %s is %+v, %v", round, id, r, err)
			}
		}
		r, err := read("counting")
		if err != nil || !r.Exited || !r.Closed || r.ExitCode != nil || r.Failure == nil {
			t.Fatalf("round %d: %+v, %v", round, r, err)
		}
		var text []byte
		for i, c := range r.Chunks {
			if text = append(text, c.Chunk...); i > 0 && c.Seq != r.Chunks[i-1].Seq+1 {
				t.Errorf("event %d follows %d", c.Seq, r.Chunks[i-1].Seq)
			}
		}
		if n := len(r.Chunks); n > 0 && r.NextSeq != r.Chunks[n-1].Seq+1 {
			t.Errorf("event %d is next after %d", r.NextSeq, r.Chunks[n-1].Seq)
		}
		lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		for i := 2; i < len(lines)-1; i++ { // the ends may be cut
			before, _ := strconv.Atoi(string(lines[i-1]))
			if this, _ := strconv.Atoi(string(lines[i])); this != before+1 {
				t.Fatalf("%q follows %q", lines[i], lines[i-1])
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
