package sqlite

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

type fakeClock struct{ passed time.Duration }

func (c *fakeClock) now() time.Time { return time.Now().Add(c.passed) }

func (c *fakeClock) advance() { c.passed += 3 * time.Hour }

// As a child, the test binary does what this variable says with the file of the next.
const (
	roleVariable = "WSD_SQLITE_TEST_ROLE"
	pathVariable = "WSD_SQLITE_TEST_PATH"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		// A database for each of the model's plans takes its time. The command line has
		// the last word, and package tree runs more of them in memory.
		if err := flag.Set("rapid.checks", "12"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	if err := child(role, os.Getenv(pathVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(role, path string) error {
	ctx := context.Background()
	db, err := Open(ctx, Config{Path: path})
	if err != nil {
		return err
	}
	defer db.Close()
	fmt.Println("open")
	switch role {
	case "hold":
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "work":
		return work(ctx, db)
	case "runs":
		return runCommands(ctx, db)
	}
	return fmt.Errorf("no role %s", role)
}

// work does all that writes, and says "done ROUND REV" when round is committed. Round n
// makes file /n%20/f with the content n, and its peer's cursor is n.
func work(ctx context.Context, db *DB) error {
	clock := &fakeClock{}
	f := tree.New(db.Tree(), tree.Config{Now: clock.now})
	tr, err := f.Tree(ctx, tree.DefaultName)
	if err != nil {
		return err
	}
	p, err := tr.Peer(ctx, "p")
	if err != nil {
		return err
	}
	for n := p.Fetch.Rev + 1; ; n++ {
		parts, err := f.Stage(ctx, strings.NewReader(strings.Repeat(fmt.Sprintln(n), 20_000)))
		if err != nil {
			return err
		}
		rev, err := tr.Update(ctx, func(e *tree.Edit) error {
			dir := fmt.Sprintf("/%d", n%20)
			if n%7 == 0 { // away with it, so that it is made again
				if err := e.Rename(dir, fmt.Sprintf("/moved%d", n%3)); err != nil && tree.Code(err) == "" {
					return err
				}
			}
			if n%11 == 0 {
				if err := e.Remove(dir, true); err != nil && tree.Code(err) == "" {
					return err
				}
			}
			if err := e.PutFile(dir+"/f", tree.File{Parts: parts}); err != nil {
				return err
			}
			_, err := e.SetPeer(tree.Peer{ID: "p", Fetch: tree.At(n)})
			return err
		})
		if err != nil {
			return err
		}
		fmt.Println("done", n, rev)
		if n%5 == 0 {
			clock.advance()
			if _, err := f.Collect(ctx, tree.Policy{Grace: -1}); err != nil {
				return err
			}
			if err := db.Shrink(ctx); err != nil {
				return err
			}
		}
	}
}

func start(t *testing.T, role, path string) (*exec.Cmd, *bufio.Scanner, io.WriteCloser) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("it says %q", lines.Text())
	}
	return cmd, lines, in
}

// The second process is told at once who has the store, and gets it when that one ends,
// in order or not.
func TestTwoProcesses(t *testing.T) {
	path := temporary(t)
	for _, kill := range []bool{false, true} {
		cmd, _, in := start(t, "hold", path)
		noTime, end := context.WithCancel(t.Context())
		end()
		_, err := Open(noTime, Config{Path: path})
		if e, ok := errors.AsType[*InUseError](err); !ok || e.PID != cmd.Process.Pid || e.Path != path || !errors.Is(err, ErrInUse) {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("in use by pid %d", cmd.Process.Pid); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "EBUSY") {
			t.Error(err)
		}
		if kill {
			cmd.Process.Kill()
		}
		in.Close()
		if err := cmd.Wait(); (err != nil) != kill {
			t.Error(err)
		}
		db, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		check(t, db)
		if text, err := os.ReadFile(path + ".lock"); err != nil || len(text) > 0 {
			t.Errorf("the lock file says %q, %v", text, err)
		}
	}
}

// In one process, too: a second handle would know nothing of the first.
func TestTwice(t *testing.T) {
	path := temporary(t)
	open(t, path)
	_, err := Open(t.Context(), Config{Path: path})
	if e, ok := errors.AsType[*InUseError](err); !ok || e.PID != os.Getpid() {
		t.Error(err)
	}
}

// A lock whose owner is dead, but which a child of it still holds, is waited for.
func TestDeadOwner(t *testing.T) {
	path := temporary(t)
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	l, err := takeLock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.write(strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := takeLock(ctx, path, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ended := make(chan error)
	go func() {
		l, err := takeLock(t.Context(), path, 0)
		if err == nil {
			l.release()
		}
		ended <- err
	}()
	l.release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A process that is killed at any moment loses nothing that it said was done, and leaves
// nothing half done: not of content, of a tree, of a cursor, of a collection.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	path := temporary(t)
	for round := range rounds {
		cmd, lines, in := start(t, "work", path)
		// Dies this long after its first line, in the middle of something.
		after := time.AfterFunc(time.Duration(3+round*13)*time.Millisecond, func() { cmd.Process.Kill() })
		var n, rev int64
		for lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "done %d %d", &n, &rev); err != nil {
				t.Errorf("%q: %v", lines.Text(), err)
			}
		}
		after.Stop()
		in.Close()
		cmd.Wait()
		db, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		_, tr := theTree(t, db)
		p, err := tr.Peer(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		info, err := tr.Info(t.Context())
		if err != nil || info.Rev < rev || p.Fetch.Rev < n || p.Fetch.Rev > n+1 && n > 0 {
			t.Errorf("round %d: said %d at %d; the cursor is %v, the tree at %d, %v", round, n, rev, p.Fetch, info.Rev, err)
		}
		// The cursor came with what it covers.
		if last := p.Fetch.Rev; last > 0 {
			text, err := tr.ReadFile(t.Context(), fmt.Sprintf("/%d/f", last%20), 1<<20)
			if err != nil || !strings.HasPrefix(string(text), fmt.Sprintln(last)) {
				t.Errorf("round %d: the cursor is at %d, the file is %.10q, %v", round, last, text, err)
			}
		}
		check(t, db)
	}
}
