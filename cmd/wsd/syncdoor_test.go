package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	iofs "io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// A process that has a state open does what other commands of the user's ask for, and nothing once it has ended.
func TestDoor(t *testing.T) {
	for name, dir := range map[string]string{"short": "", "long": strings.Repeat("long/", 30)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(shortDir(t), dir)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("XDG_RUNTIME_DIR", dir)
			testDoor(t, dir)
		})
	}
}

func testDoor(t *testing.T, dir string) {
	store := filepath.Join(dir, "s.db")
	writeFile(t, store, "")
	wantNone := func(what string) {
		t.Helper()
		if a, err := askDoor(t.Context(), store, &doorRequest{}); !errors.Is(err, errNoWatch) {
			t.Fatalf("%s: %+v, %v", what, a, err)
		}
	}
	wantNone("nobody has it open")
	path, err := doorPath(store)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "of a process that was killed")
	wantNone("a killed process had it open")
	gone, second := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	door, err := openDoor(store, func(ctx context.Context, q *doorRequest) *doorAnswer {
		a := &doorAnswer{Busy: q.Do == "busy"}
		switch q.Do {
		case doorCollect:
			a.Collected = protocol.CollectResult{Chunks: 2, Bytes: 5, Marked: 1}
		case doorRestore:
			a.fail(&exitError{exitHeld, withHint(errors.New("broken"), "mend it")})
		case doorResolve: // until the command has gone
			cancel()
			<-ctx.Done()
			close(gone)
		case "first":
			<-second
		case "second":
			close(second)
		case "much":
			a.Stdout = make([]byte, maxDoorAnswer)
		default:
			a.Stdout = q.Path
		}
		return a
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil {
		t.Error(err)
	} else if info.Mode() != iofs.ModeSocket|0o600 {
		t.Errorf("the socket: %v", info.Mode())
	}
	connect := func() net.Conn {
		t.Helper()
		name, at, err := socketName(path)
		if err != nil {
			t.Fatal(err)
		}
		defer at.Close()
		conn, err := net.Dial("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	for _, text := range []string{"", "[]\n", "null\nx", strings.Repeat(" ", 2*maxDoorRequest)} { // nobody of ours
		conn := connect()
		_, _ = conn.Write([]byte(text))
		_ = conn.Close()
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(store, link); err != nil {
		t.Fatal(err)
	}
	a, err := askDoor(t.Context(), link, &doorRequest{Do: doorCollect, Now: true})
	if err != nil || a.err() != nil || a.Collected != (protocol.CollectResult{Chunks: 2, Bytes: 5, Marked: 1}) {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = askDoor(t.Context(), store, &doorRequest{Do: doorRestore})
	var out strings.Builder
	if err != nil || report(&out, a.err()) != exitHeld || out.String() != "Error: broken\nHint: mend it\n" {
		t.Errorf("an error: %+v, %v, %s", a, err, &out)
	}
	bytes := "caf\xe9"
	if a, err = askDoor(t.Context(), store, &doorRequest{Do: doorConflicts, Path: []byte(bytes)}); err != nil || string(a.Stdout) != bytes {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = askDoor(t.Context(), store, &doorRequest{Do: "much"}); err != nil || a.err() == nil || len(a.Stdout) != 0 {
		t.Errorf("more than there may be: %v", err)
	}
	if _, err = askDoor(t.Context(), store, &doorRequest{Do: "busy"}); !errors.Is(err, errBusy) {
		t.Errorf("busy: %v", err)
	}
	first := make(chan error, 1)
	go func() {
		_, err := askDoor(t.Context(), store, &doorRequest{Do: "first"})
		first <- err
	}()
	if _, err = askDoor(t.Context(), store, &doorRequest{Do: "second"}); err != nil {
		t.Errorf("beside another one: %v", err)
	}
	if err := <-first; err != nil {
		t.Errorf("before another one: %v", err)
	}
	if _, err = askDoor(ctx, store, &doorRequest{Do: doorResolve}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("it goes on for a command that has gone")
	}
	silent := connect()
	if _, err := io.ReadFull(silent, make([]byte, 1)); err != nil { // it is its turn
		t.Error(err)
	}
	if err := door.Close(); err != nil {
		t.Error(err)
	}
	_ = silent.Close()
	wantNone("it is closed")
	if _, err := os.Lstat(path); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("the socket is there: %v", err)
	}
}

// A command waits as long as the watch sends signs of life, and gives up after silence.
func TestDoorTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		look  time.Duration // until the watch takes the request
		alive bool
		want  error
		after time.Duration
	}{
		"silent":    {want: errNoAnswer, after: idleTimeout + graceTimeout},
		"at once":   {alive: true},
		"slow look": {look: lookTimeout - time.Second, alive: true, after: lookTimeout - time.Second},
		"long look": {look: time.Hour, alive: true, want: errBusy, after: lookTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				here, there := net.Pipe()
				defer there.Close()
				j := &syncJob{asks: make(chan *syncAsk)}
				if c.alive {
					go (&syncDoor{serve: j.answer}).take(ctx, there)
				}
				go func() {
					select {
					case <-time.After(c.look):
					case <-ctx.Done():
						return
					}
					select {
					case ask := <-j.asks:
						ask.done <- &doorAnswer{}
					case <-ctx.Done():
					}
				}()
				began := time.Now()
				_, err := askOver(ctx, here, &doorRequest{Do: doorResolve})
				if d := time.Since(began); !errors.Is(err, c.want) || d != c.after {
					t.Errorf("%v after %v, want %v after %v", err, d, c.want, c.after)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// A watch notices at once that the command which it works for has gone, and does nothing for one that went while it
// waited.
func TestDoorNoticesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		began := make(chan context.Context, 1)
		d := &syncDoor{serve: func(ctx context.Context, _ *doorRequest) *doorAnswer {
			began <- ctx
			<-ctx.Done()
			return &doorAnswer{}
		}}
		d.done.Go(func() { d.take(t.Context(), there) })
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan error, 1)
		go func() { // sends below
			_, err := askOver(ctx, here, &doorRequest{})
			asked <- err
		}()
		serving := <-began
		gone := time.Now()
		cancel()
		<-serving.Done()
		if d := time.Since(gone); d > 0 {
			t.Errorf("it noticed after %v", d)
		}
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		d.done.Wait()

		j := &syncJob{}
		ask := &syncAsk{&doorRequest{Do: doorRestore}, ctx, make(chan *doorAnswer, 1)}
		j.serve(t.Context(), nil, ask)
		if a := <-ask.done; !a.Busy {
			t.Errorf("it was served: %+v", a)
		}
	})
}

// A sleptConn has what came while its reader was stopped, whose deadline has passed.
type sleptConn struct {
	net.Conn
	reads int
}

func (c *sleptConn) SetReadDeadline(time.Time) error { return nil }

func (c *sleptConn) Read(b []byte) (int, error) {
	if c.reads++; c.reads%2 == 1 {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(b, "x"), nil
}

// A command that was stopped for longer than a watch may be silent takes what the watch has answered meanwhile.
func TestDoorAnswersAStoppedCommand(t *testing.T) {
	c := &idleTimeoutConn{&sleptConn{}}
	for range 2 {
		if n, err := c.Read(make([]byte, 4)); n != 1 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// A failingListener fails to accept some connections first.
type failingListener struct {
	net.Listener
	failures int
	conns    chan net.Conn
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	if conn, ok := <-l.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// A watch that had too many open files for a while serves requests afterwards.
func TestDoorAcceptsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		l := &failingListener{failures: 3, conns: make(chan net.Conn, 1)}
		l.conns <- there
		d := &syncDoor{listener: l, serve: func(context.Context, *doorRequest) *doorAnswer { return &doorAnswer{} }}
		d.done.Go(func() { d.accept(t.Context()) })
		if _, err := askOver(t.Context(), here, &doorRequest{}); err != nil {
			t.Error(err)
		}
		close(l.conns)
		d.done.Wait()
	})
}

// The error for a watch that does not serve a request names it, and says what to do.
func TestDoorExplains(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Skip(err)
	}
	live, dead := os.Getpid(), ended.Process.Pid
	for _, c := range []struct {
		asked error
		pid   int
		want  string
	}{
		{errNoWatch, live, "Error: s.db is in use by pid 7 (EBUSY): talk to that process, or stop it first\n"},
		{errNoWatch, 0, "Error: s.db is in use by another process (EBUSY): talk to that process, or stop it first\n"},
		{errNoWatch, dead, "Error: the process that had s.db open (pid 7) has just ended; nothing was done\nHint: run it again\n"},
		{errNoAnswer, live, "Error: the 'wsd sync --watch' of this directory (pid 7) does not answer; nothing was done\nHint: if it was stopped, 'kill -CONT 7' has it go on; else end it: 'kill 7'\n"},
		{errBusy, live, "Error: the 'wsd sync --watch' of this directory (pid 7) is busy: for 30s it has looked at both sides, or connected; nothing was done\nHint: try again once it is done with that, or end it first: 'kill 7'\n"},
	} {
		var out strings.Builder
		inUse := &sqlite.InUseError{Path: "s.db", PID: c.pid}
		report(&out, explainAsked(c.asked, inUse, inUse))
		if strings.ReplaceAll(out.String(), strconv.Itoa(c.pid), "7") != strings.ReplaceAll(c.want, strconv.Itoa(c.pid), "7") {
			t.Errorf("%v: %s", c.asked, &out)
		}
	}
}

// A request is served whatever its length: the end of its line may come after all that the decoder reads.
func TestDoorRequestLengths(t *testing.T) {
	for _, n := range []int{511, 512, 513, 1535, 1536, 1537} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testDoorRequestLength(t, n) })
		})
	}
}

func testDoorRequestLength(t *testing.T, n int) {
	q := &doorRequest{Do: doorRestore, Of: "x"}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	q.Of = strings.Repeat("x", 1+n-len(text))
	here, there := net.Pipe()
	d := &syncDoor{serve: func(ctx context.Context, _ *doorRequest) *doorAnswer {
		synctest.Wait() // all is read that was sent
		return &doorAnswer{Busy: ctx.Err() != nil}
	}}
	go d.take(t.Context(), there)
	if _, err := askOver(t.Context(), here, q); err != nil {
		t.Error(err)
	}
}

// F5: wsd gc collects what wsd sync keeps of a directory, while it is watched and while it is not.
func TestF5CollectsWhatSyncKeeps(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "f"), "text")
	p.serve()
	p.run("sync", p.here, p.url).want(t, 0)
	stores, err := filepath.Glob(filepath.Join(p.home, "state/wsd/sync/*.db"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("the states: %v, %v", stores, err)
	}
	collect := func(args ...string) {
		t.Helper()
		cmd := p.command(append([]string{"gc", "--now"}, args...)...)
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+p.home)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "deleted ") {
			t.Errorf("gc %v: %v\n%s", args, err, out)
		}
	}
	collect(p.here)
	watch, out := p.command("sync", "--watch", p.here, p.url), &logBuffer{}
	watch.Env = append(watch.Env, "XDG_RUNTIME_DIR="+p.home)
	watch.Stdout, watch.Stderr = out, out
	writeFile(t, filepath.Join(p.here, "g"), "more")
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, "to the server: 1 path")
	collect(p.here)
	collect("--store", stores[0])
	if err := errors.Join(watch.Process.Signal(syscall.SIGTERM), watch.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	collect(filepath.Join(p.here, "sub"))
}
