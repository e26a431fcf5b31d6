package shell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/shell"
)

// 3 MiB for a reader that takes its time with each event: all arrives, and the exit comes
// last. (The reference loses the tail, and dies of it.)
func TestSlowReader(t *testing.T) {
	t.Parallel()
	f := open(t)
	const size = 3 << 20
	_, events := f.exec(shell.Request{Command: fmt.Sprintf("head -c %d /dev/zero; echo end >&2", size)})
	var tr transcript
	pause := time.NewTicker(2 * time.Millisecond)
	defer pause.Stop()
	for {
		<-pause.C
		e, err := events.Next(within(t))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		tr.add(t, e)
	}
	tr.want(t, 0, string(make([]byte, size)), "end\n")
}

// filler is a command that prints blocks of 64 KiB and says in a file how many it was rid
// of.
func filler(f *fixture) (command string, written func() int) {
	path := filepath.Join(f.dir, "written")
	command = "while head -c 65536 /dev/zero; do echo >> " + path + "; done"
	return command, func() int {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			f.t.Error(err)
		}
		return len(data)
	}
}

// stalled waits until a number stays what it is.
func stalled(t *testing.T, count func() int) int {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	same, last := 0, -1
	for begin := time.Now(); time.Since(begin) < patience; <-tick.C {
		if n := count(); n != last || n == 0 {
			same, last = 0, n
		} else if same++; same == 10 {
			return n
		}
	}
	t.Fatal("it goes on and on")
	return 0
}

// Who takes nothing stops the command; who goes lets it run; who comes back finds all.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	f := open(t, func(c *config) { c.MaxLogBytes = 1 << 40 }) // of a run that goes on until somebody is back
	command, written := filler(f)
	id, events := f.exec(shell.Request{Command: command})
	const most = 11 // the window, a read, and a pipe that is busy
	if n := stalled(t, written); n > most {
		t.Errorf("%d blocks of 64 KiB are on their way to nobody", n)
	}
	var tr transcript
	for len(tr.stdout) < 2*most<<16 {
		tr.add(t, next(t, events))
	}
	if n, taken := stalled(t, written), len(tr.stdout)>>16; n > taken+most+1 {
		t.Errorf("%d blocks of 64 KiB, and %d are taken", n, taken)
	}
	events.Close()
	for begin := time.Now(); written() < 40; {
		if time.Since(begin) > patience {
			t.Fatal("a detached run does not go on")
		}
		runtime.Gosched()
	}
	again := f.get(id, shell.After{Seq: tr.last})
	tr.add(t, next(t, again))
	stalled(t, written) // it has a reader again
	if err := f.KillExec(t.Context(), id, "SIGKILL"); err != nil {
		t.Error(err)
	}
	if rest := collect(t, again); rest.first != tr.last+1 || rest.code != 137 {
		t.Errorf("from %d after %d, code %d", rest.first, tr.last, rest.code)
	}
}

// A paused run can be disposed of, and killed, and the rest is not touched by it.
func TestDisposePaused(t *testing.T) {
	t.Parallel()
	f := open(t)
	command, written := filler(f)
	_, events := f.exec(shell.Request{ID: "x", Command: command})
	stalled(t, written)
	if err := f.DisposeExec(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := events.Next(within(t)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	_, err := f.GetExec(t.Context(), "x", shell.After{})
	wantCode(t, err, shell.CodeNotFound)
	f.run(shell.Request{ID: "x", Command: "echo hi"}).want(t, 0, "hi\n", "")
}

// A paused run that is killed still delivers what it had printed.
func TestKillPaused(t *testing.T) {
	t.Parallel()
	f := open(t)
	command, written := filler(f)
	id, events := f.exec(shell.Request{Command: command})
	n := stalled(t, written)
	if err := f.KillExec(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	if tr := collect(t, events); tr.code != 143 || len(tr.stdout) < n<<16 {
		t.Errorf("code %d, %d bytes", tr.code, len(tr.stdout))
	}
}

// The log has 16 MiB. What is more is live in full, and cannot be replayed.
func TestLogCap(t *testing.T) {
	t.Parallel()
	f := open(t)
	gate := newGate(t, f)
	_, events := f.exec(shell.Request{ID: "full", Command: fmt.Sprintf("head -c %d /dev/zero", 16<<20)})
	if tr := collect(t, events); len(tr.stdout) != 16<<20 {
		t.Error(len(tr.stdout))
	}
	if tr := collect(t, f.get("full", shell.After{})); len(tr.stdout) != 16<<20 || tr.exits != 1 {
		t.Error(len(tr.stdout))
	}

	_, events = f.exec(shell.Request{ID: "x", Command: fmt.Sprintf("head -c %d /dev/zero; "+gate.wait()+"; echo on; "+gate.wait()+"; echo end", 17<<20)})
	var tr transcript
	for len(tr.stdout) < 17<<20 {
		tr.add(t, next(t, events))
	}
	gate.open()
	tr.add(t, next(t, events))
	events.Close()
	for _, after := range []shell.After{{}, {Seq: 5}, {Seq: tr.last}} {
		_, err := f.GetExec(t.Context(), "x", after)
		wantCode(t, err, shell.CodeTruncated)
	}
	// The present can still be followed, and its numbers go on.
	events = f.get("x", shell.After{Tail: true})
	gate.open()
	rest := collect(t, events)
	if rest.first != tr.last+1 || string(rest.stdout) != "end\n" || rest.exits != 1 {
		t.Errorf("%+v", rest)
	}
	for _, after := range []shell.After{{}, {Tail: true}} {
		_, err := f.GetExec(t.Context(), "x", after)
		wantCode(t, err, shell.CodeTruncated)
	}
	if err := f.KillExec(t.Context(), "x", ""); err != nil {
		t.Error(err)
	}
	if err := f.DisposeExec(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	_, err := f.GetExec(t.Context(), "x", shell.After{})
	wantCode(t, err, shell.CodeNotFound)
}

// A follower that reads the log when that becomes too long gets all that it was promised.
func TestEvictDuringReplay(t *testing.T) {
	t.Parallel()
	f := open(t, func(c *config) { c.MaxLogBytes = 1 << 20 })
	gate := newGate(t, f)
	id, events := f.exec(shell.Request{Command: fmt.Sprintf("head -c %d /dev/zero; "+gate.wait()+"; head -c %d /dev/zero", 1<<20-1, 1<<20)})
	var before transcript
	for len(before.stdout) < 1<<20-1 {
		before.add(t, next(t, events))
	}
	events.Close()
	events = f.get(id, shell.After{})
	var tr transcript
	tr.add(t, next(t, events)) // has a page of the log
	gate.open()
	for evicted := false; !evicted; { // it is evicted while most of the log is unread
		r, err := find(t.Context(), f.store, id)
		if err != nil {
			t.Fatal(err)
		}
		evicted = r.Evicted
		runtime.Gosched()
	}
	_, err := f.GetExec(t.Context(), id, shell.After{})
	wantCode(t, err, shell.CodeTruncated)
	rest := collect(t, events)
	if got := len(tr.stdout) + len(rest.stdout); got != 2<<20-1 || rest.first != 2 || rest.exits != 1 {
		t.Errorf("%d bytes from %d on", got, rest.first)
	}
	r, err := find(t.Context(), f.store, id)
	if err != nil || !r.Evicted || !r.Ended || r.Last != rest.last {
		t.Errorf("%+v, %v", r, err)
	}
}

// Reattaching at any point, again and again, neither loses nor doubles an event.
func TestReattach(t *testing.T) {
	t.Parallel()
	f := open(t)
	const lines = 60_000
	var want bytes.Buffer
	for i := range lines {
		want.WriteString(strconv.Itoa(i+1) + "\n")
	}
	id, events := f.exec(shell.Request{Command: fmt.Sprintf("for i in 1 2 3 4 5 6; do seq $((i*10000-9999)) $((i*10000)); sleep 0.02; done # %d", lines)})
	var tr transcript
	for round := 0; tr.exits == 0; round++ {
		for range round%4 + 1 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			e, err := events.Next(ctx)
			cancel()
			if err != nil {
				break
			}
			tr.add(t, e)
		}
		events.Close()
		events = f.get(id, shell.After{Seq: tr.last})
	}
	tr.want(t, 0, want.String(), "")
}
