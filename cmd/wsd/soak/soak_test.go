//go:build e2e && linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// lasts is for how long the writers write, unless WSD_SOAK says otherwise.
const lasts = time.Minute

// settles is how many syncs there may be until both sides are the same.
const settles = 20

// A trial is a synchronisation whose ends are in trouble.
type trial struct {
	t      *testing.T
	wsd    string
	dir    string
	random *rand.Rand
	ledger *ledger
	server *program
	client *program
	link   *link
	output *record // of all clients
}

func (x *trial) path(name string) string { return filepath.Join(x.dir, name) }

// TestTwoWriters has programs write on both sides at once. In the end both sides are the
// same, and each value is there, was overwritten by a writer that had read it, or can be
// restored, and its path was named.
func TestTwoWriters(t *testing.T) {
	wsd, err := target.WsdPath(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	length := lasts
	if text := os.Getenv("WSD_SOAK"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	x := &trial{t: t, wsd: wsd, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1)), ledger: newLedger(), output: &record{}}
	for _, name := range []string{"here", "there", "trash-here", "trash-there", "spare", "home"} {
		if err := os.Mkdir(x.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x.link = newLink(t, x.path("p"), x.path("s"))
	x.serve()
	x.watch()

	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range 4 {
		side := []string{"here", "there"}[i%2]
		w := &writer{
			side: side, dir: x.path(side), trash: x.path("trash-" + side), spare: x.path("spare"),
			ledger: x.ledger, random: rand.New(rand.NewPCG(seed, uint64(i)+2)),
		}
		writers.Go(func() {
			if err := w.run(stop); err != nil {
				t.Error(err)
			}
		})
	}
	troubles := 0
	for begin := time.Now(); time.Since(begin) < length && !t.Failed(); troubles++ {
		<-time.After(time.Duration(x.random.IntN(1500)) * time.Millisecond)
		x.trouble()
	}
	close(stop)
	writers.Wait()
	x.link.heal()
	x.client.end(syscall.SIGINT)
	x.settle()
	x.server.end(syscall.SIGTERM)
	x.account(troubles)
}

func (x *trial) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(x.t.Context(), x.wsd, args...)
	cmd.Env = []string{"HOME=" + x.path("home"), "XDG_STATE_HOME=" + x.path("home"), "XDG_RUNTIME_DIR=" + x.path("home"), "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (x *trial) serve() {
	_ = os.Remove(x.path("s"))
	x.server = start(x.t, x.command("serve", "--workspace", x.path("there"), "--store", x.path("there.db"), "--listen", "unix://"+x.path("s")), &record{})
}

func (x *trial) sync(args ...string) *exec.Cmd {
	return x.command(append([]string{"sync", "--state", x.path("here.db"), "--on-conflict", "both", "--max-delete", "100%", "--merge", x.path("here"), "unix://" + x.path("p")}, args...)...)
}

func (x *trial) watch() { x.client = start(x.t, x.sync("--watch", "--json"), x.output) }

// trouble lets something happen to one of the ends, or between them.
func (x *trial) trouble() {
	pause := func() { <-time.After(time.Duration(x.random.IntN(1200)) * time.Millisecond) }
	switch x.random.IntN(6) {
	case 0:
		x.client.end(syscall.SIGKILL)
		pause()
		x.watch()
	case 1:
		x.server.end(syscall.SIGKILL)
		pause()
		x.serve()
	case 2:
		x.link.cut()
	case 3:
		x.link.silent.Store(true)
		pause()
		x.link.heal()
	case 4:
		x.client.stop(pause)
	default:
		x.server.stop(pause)
	}
	if !x.client.lives() {
		x.watch() // it has given up
	}
}

// settle synchronises until both sides are the same.
func (x *trial) settle() {
	for n := 1; ; n++ {
		cmd := x.sync("--json")
		cmd.Stdout = x.output
		var errs record
		cmd.Stderr = &errs
		err := cmd.Run()
		here, there := contents(x.t, x.path("here")), contents(x.t, x.path("there"))
		diff := difference(here, there)
		if err == nil && diff == "" {
			x.t.Logf("the same after %d more syncs", n)
			return
		}
		if n == settles {
			x.t.Fatalf("%v after %d syncs, %s\n%s", err, n, &errs, diff)
		}
	}
}

// account looks for each value.
func (x *trial) account(troubles int) {
	found := map[string]string{}
	add := func(where string, text []byte) {
		if v := valueOf(text); v != "" {
			found[v] = where
		}
	}
	for _, dir := range []string{"here", "there", "trash-here", "trash-there"} {
		for path, text := range contents(x.t, x.path(dir)) {
			add(dir+"/"+path, []byte(text))
		}
	}
	output := x.output.String()
	kept, unnamed := 0, []string{}
	for _, store := range []string{"here.db", "there.db"} {
		for _, v := range x.lost(store) {
			kept++
			add("lost "+store, v.text)
			name := strings.TrimPrefix(v.Path, "/workspace/")
			if store == "here.db" && !strings.Contains(output, `"path":"`+name+`"`) {
				unnamed = append(unnamed, fmt.Sprintf("%d %s", v.ID, name))
			}
		}
	}
	missing := []string{}
	for v, how := range x.ledger.written {
		if found[v] == "" && !x.ledger.seen[v] {
			missing = append(missing, v+" "+how)
		}
	}
	slices.Sort(missing)
	x.t.Logf("%d values, %d troubles, %d conflicts, %d versions kept", x.ledger.count, troubles, strings.Count(output, `{"type":"conflict"`), kept)
	if len(missing) > 0 {
		x.t.Errorf("%d values are nowhere:\n%s", len(missing), strings.Join(missing[:min(len(missing), 20)], "\n"))
	}
	if len(unnamed) > 0 {
		x.t.Errorf("%d versions were kept without a word:\n%s", len(unnamed), strings.Join(unnamed[:min(len(unnamed), 20)], "\n"))
	}
	for side, args := range map[string][]string{
		"there": {"fsck", "--workspace", x.path("there"), "--store", x.path("there.db")},
		"here":  {"fsck", "--workspace", x.path("here"), "--store", x.path("here.db")},
	} {
		if out, err := x.command(args...).CombinedOutput(); err != nil {
			x.t.Errorf("fsck %s: %v\n%s", side, err, out)
		}
	}
	if x.t.Failed() && os.Getenv("WSD_SOAK_KEEP") != "" {
		_ = os.WriteFile(os.Getenv("WSD_SOAK_KEEP"), []byte(output), 0o644)
	}
}

// A keptVersion is one with its content.
type keptVersion struct {
	lost.Version
	text []byte
}

func (x *trial) lost(store string) []keptVersion {
	ctx := context.WithoutCancel(x.t.Context())
	db, err := sqlite.Open(ctx, sqlite.Config{Path: x.path(store)})
	if err != nil {
		x.t.Fatal(err)
	}
	defer db.Close()
	forest := tree.New(db.Tree(), tree.Config{})
	var list []keptVersion
	err = lost.List(ctx, forest, 0, func(v *lost.Version) error {
		k := keptVersion{Version: *v}
		for _, p := range v.Entry.Parts {
			var err error
			if k.text, err = forest.Chunk(ctx, p.Hash, k.text); err != nil {
				return err
			}
		}
		list = append(list, k)
		return nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return list
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != dir {
				out[name+"/"] = fmt.Sprintf("%o", info.Mode().Perm())
			}
			return nil
		}
		text, err := os.ReadFile(path)
		out[name] = string(text)
		if !strings.HasPrefix(filepath.Base(dir), "trash") {
			out[name+" mode"] = fmt.Sprintf("%o", info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// difference says where two directories differ, "" if they do not.
func difference(a, b map[string]string) string {
	var out []string
	for path := range a {
		if a[path] != b[path] {
			out = append(out, fmt.Sprintf("%s: here %.30q, there %.30q", path, a[path], b[path]))
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			out = append(out, fmt.Sprintf("%s: not here, there %.30q", path, b[path]))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 20)], "\n")
}

// A record is what a program has printed.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// A program runs.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	errs *record
	done chan struct{}
}

func start(t *testing.T, cmd *exec.Cmd, out io.Writer) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, errs: &record{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, p.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the program
		defer close(p.done)
		_ = cmd.Wait() // the caller of end looks at the outcome
	}()
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

func (p *program) lives() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end sends a signal and waits.
func (p *program) end(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Errorf("%v does not end:\n%s", p.cmd.Args, p.errs)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// stop lets it stand still for a while.
func (p *program) stop(while func()) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	while()
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// A link is between the ends: it can be cut, and it can be silent.
type link struct {
	to     string
	silent atomic.Bool
	mu     sync.Mutex
	open   map[net.Conn]struct{}
}

func newLink(t *testing.T, at, to string) *link {
	t.Helper()
	l := &link{to: to, open: map[net.Conn]struct{}{}}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		l.cut()
	})
	go func() { // ends with the listener
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.join(c)
		}
	}()
	return l
}

// join copies both ways until one ends.
func (l *link) join(near net.Conn) {
	far, err := net.Dial("unix", l.to)
	if err != nil {
		near.Close()
		return
	}
	l.mu.Lock()
	l.open[near], l.open[far] = struct{}{}, struct{}{}
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			defer near.Close()
			defer far.Close()
			buf := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buf)
				for l.silent.Load() && err == nil {
					<-time.After(5 * time.Millisecond)
				}
				if n > 0 {
					if _, werr := way[1].Write(buf[:n]); werr != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, near)
	delete(l.open, far)
}

// cut ends all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (l *link) heal() { l.silent.Store(false) }
