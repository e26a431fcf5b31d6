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
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// lasts is for how long the writers write, unless WSD_SOAK says otherwise.
const lasts = time.Minute

// calms is how long the watch may take until both sides are the same once nobody writes, and
// settles is how many syncs there may be then.
const (
	calms   = 2 * time.Minute
	settles = 3
)

// A trial is a synchronisation whose ends are in trouble.
type trial struct {
	t      *testing.T
	wsd    string
	dir    string
	random *rand.Rand
	ledger *ledger
	disks  map[string]*volume // by side
	server *program
	client *program
	link   *link
	output *record            // of all clients
	logs   map[string]*record // what they say on standard error, and what servers say

	kills, cuts, silences, stops, full, givenUp int
}

func (x *trial) path(name string) string { return filepath.Join(x.dir, name) }

// work is the directory of a side that is synchronised, store what its end knows.
func (x *trial) work(side string) string  { return x.disks[side].path("work") }
func (x *trial) store(side string) string { return x.disks[side].path("store.db") }

var sides = []string{"here", "there"}

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
	x := &trial{
		t: t, wsd: wsd, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1)), ledger: newLedger(), output: &record{},
		disks: map[string]*volume{}, logs: map[string]*record{"client": {}, "server": {}},
	}
	if err := os.Mkdir(x.path("home"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		d := newVolume(t, x.path(side))
		for _, name := range []string{"work", "trash", "spare"} {
			if err := os.Mkdir(d.path(name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		x.disks[side] = d
	}
	t.Cleanup(x.keep) // before the disks go
	x.link = newLink(t, x.path("p"), x.path("s"))
	x.serve()
	x.watch()

	stop := make(chan struct{})
	var writers sync.WaitGroup
	hire := func(i int, run func(*writer, <-chan struct{}) error) {
		side := sides[i%2]
		d := x.disks[side]
		w := &writer{
			side: side, dir: x.work(side), trash: d.path("trash"), spare: d.path("spare"),
			ledger: x.ledger, random: rand.New(rand.NewPCG(seed, uint64(i)+2)),
		}
		writers.Go(func() {
			if err := run(w, stop); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 4 {
		hire(i, (*writer).run)
	}
	for i := range sides {
		hire(4+i, (*writer).sweep)
	}
	for begin := time.Now(); time.Since(begin) < length && !t.Failed(); {
		<-time.After(time.Duration(x.random.IntN(1500)) * time.Millisecond)
		x.trouble()
	}
	close(stop)
	writers.Wait()
	x.calm()
	x.client.end(syscall.SIGINT)
	x.settle()
	x.server.end(syscall.SIGTERM)
	x.account()
}

func (x *trial) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(x.t.Context(), x.wsd, args...)
	cmd.Env = []string{"HOME=" + x.path("home"), "XDG_STATE_HOME=" + x.path("home"), "XDG_RUNTIME_DIR=" + x.path("home"), "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (x *trial) serve() {
	_ = os.Remove(x.path("s"))
	x.server = start(x.t, x.command("serve", "--workspace", x.work("there"), "--store", x.store("there"), "--listen", "unix://"+x.path("s")), &record{}, x.logs["server"])
}

func (x *trial) sync(args ...string) *exec.Cmd {
	return x.command(append([]string{"sync", "--state", x.store("here"), "--on-conflict", "both", "--max-delete", "100%", "--merge", x.work("here"), "unix://" + x.path("p")}, args...)...)
}

func (x *trial) watch() {
	x.client = start(x.t, x.sync("--watch", "--json"), x.output, x.logs["client"])
}

// trouble lets something happen to one of the ends, or between them.
func (x *trial) trouble() {
	pause := func() { <-time.After(time.Duration(x.random.IntN(1200)) * time.Millisecond) }
	switch x.random.IntN(8) {
	case 0:
		x.client.end(syscall.SIGKILL)
		x.kills++
		pause()
		x.watch()
	case 1:
		x.server.end(syscall.SIGKILL)
		x.kills++
		pause()
		x.serve()
	case 2:
		x.link.cut()
		x.cuts++
	case 3:
		x.link.silent.Store(true)
		x.silences++
		pause()
		x.link.heal()
	case 4:
		x.client.stop(pause)
		x.stops++
	case 5:
		x.server.stop(pause)
		x.stops++
	case 6:
		x.fill(pause, sides[x.random.IntN(2)])
	default:
		x.fill(pause, sides...)
	}
	x.revive()
}

// fill lets disks be full for a while. One of the ends may be killed meanwhile.
func (x *trial) fill(while func(), which ...string) {
	for _, side := range which {
		filled, err := x.disks[side].fill(int64(x.random.IntN(4)) * 16 << 10)
		if err != nil {
			x.t.Error(err)
		}
		if filled {
			x.full++
		}
	}
	while()
	switch x.random.IntN(4) {
	case 0:
		x.client.end(syscall.SIGKILL)
		x.kills++
		x.watch()
		while()
	case 1:
		x.server.end(syscall.SIGKILL)
		x.kills++
		x.serve()
		while()
	}
	for _, side := range which {
		if err := x.disks[side].empty(); err != nil {
			x.t.Error(err)
		}
	}
}

// revive starts an end anew that has given up.
func (x *trial) revive() {
	if !x.client.lives() {
		x.givenUp++
		x.t.Logf("the client has given up: %.300s", x.logs["client"].last(1))
		x.watch()
	}
	if !x.server.lives() {
		x.givenUp++
		x.t.Logf("the server has given up: %.300s", x.logs["server"].last(1))
		x.serve()
	}
}

// calm waits until the watch has made both sides the same, now that nobody is in its way.
func (x *trial) calm() {
	x.link.heal()
	begin := time.Now()
	for {
		x.revive()
		here, err := contents(x.work("here"))
		there, err2 := contents(x.work("there"))
		if errors.Join(err, err2) == nil && difference(here, there) == "" {
			x.t.Logf("the same after %.1f s", time.Since(begin).Seconds())
			return
		}
		if time.Since(begin) > calms {
			x.t.Errorf("stuck after %s: %s\n%s", calms, difference(here, there), x.logs["client"].last(20))
			return
		}
		<-time.After(100 * time.Millisecond)
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
		here, err2 := contents(x.work("here"))
		there, err3 := contents(x.work("there"))
		diff := difference(here, there)
		if err = errors.Join(err, err2, err3); err == nil && diff == "" {
			x.t.Logf("the same after %d more syncs", n)
			return
		}
		if n == settles {
			x.t.Fatalf("%v after %d syncs, %s\n%s", err, n, &errs, diff)
		}
	}
}

// account looks for each value.
func (x *trial) account() {
	found := map[string]bool{}
	for _, side := range sides {
		for _, name := range []string{"work", "trash"} {
			list, err := contents(x.disks[side].path(name))
			if err != nil {
				x.t.Fatal(err)
			}
			for _, text := range list {
				found[valueOf([]byte(text))] = true
			}
		}
	}
	output := x.output.String()
	kept, unnamed := 0, []string{}
	for _, side := range sides {
		for _, v := range x.lost(side) {
			kept++
			found[valueOf(v.text)] = true
			name := strings.TrimPrefix(v.Path, "/workspace/")
			if side == "here" && kept%20 == 1 {
				x.restore(&v, name)
			}
			if side == "here" && !strings.Contains(output, `"path":"`+name+`"`) {
				unnamed = append(unnamed, fmt.Sprintf("%d %s", v.ID, name))
			}
		}
	}
	missing := []string{}
	for v, how := range x.ledger.written {
		if !found[v] && !x.ledger.seen[v] {
			missing = append(missing, v+" "+how)
		}
	}
	slices.Sort(missing)
	x.t.Logf("%d values, %d for which there was no room, %d kills, %d cuts, %d silences, %d stops, %d full disks, %d times given up",
		x.ledger.count, x.ledger.voided, x.kills, x.cuts, x.silences, x.stops, x.full, x.givenUp)
	x.t.Logf("%d conflicts, %d versions kept, %d values unaccounted for", strings.Count(output, `{"type":"conflict"`), kept, len(missing))
	if len(missing) > 0 {
		x.t.Errorf("%d values are nowhere:\n%s", len(missing), strings.Join(missing[:min(len(missing), 20)], "\n"))
	}
	if len(unnamed) > 0 {
		x.t.Errorf("%d versions were kept without a word:\n%s", len(unnamed), strings.Join(unnamed[:min(len(unnamed), 20)], "\n"))
	}
	for _, side := range sides {
		if out, err := x.command("fsck", "--workspace", x.work(side), "--store", x.store(side)).CombinedOutput(); err != nil {
			x.t.Errorf("fsck %s: %v\n%s", side, err, out)
		}
	}
}

// keep leaves what a test that has failed has printed, and all it had, in a directory.
func (x *trial) keep() {
	dir := os.Getenv("WSD_SOAK_KEEP")
	if dir == "" || !x.t.Failed() {
		return
	}
	err := os.MkdirAll(dir, 0o755)
	for name, r := range map[string]*record{"output": x.output, "client.log": x.logs["client"], "server.log": x.logs["server"]} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(r.String()), 0o644))
	}
	for _, side := range sides {
		// os.CopyFS takes no names that are not UTF-8.
		err = errors.Join(err, exec.CommandContext(context.Background(), "cp", "-a", x.disks[side].dir, filepath.Join(dir, side)).Run())
	}
	if err != nil {
		x.t.Error(err)
	}
}

// A keptVersion is one with its content.
type keptVersion struct {
	lost.Version
	text []byte
}

func (x *trial) lost(side string) []keptVersion {
	ctx := context.WithoutCancel(x.t.Context())
	db, err := sqlite.Open(ctx, sqlite.Config{Path: x.store(side)})
	if err != nil {
		x.t.Fatal(err)
	}
	defer db.Close()
	content, err := objects.Open(sqlite.ObjectsPath(db.Path()))
	if err != nil {
		x.t.Fatal(err)
	}
	defer content.Close()
	forest := tree.New(db.Tree(), tree.Config{})
	forest.SetHome(disk.ObjectsOnly(tree.DefaultName, content))
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

// restore brings a version back by the command that the line of its conflict names.
func (x *trial) restore(v *keptVersion, name string) {
	to := x.path(fmt.Sprint("restored-", v.ID))
	out, err := x.command("sync", "restore", "--state", x.store("here"), "--version", fmt.Sprint(v.ID), "--to", to, filepath.Join(x.work("here"), name)).CombinedOutput()
	text, readErr := os.ReadFile(to)
	if err = errors.Join(err, readErr); err != nil || string(text) != string(v.text) {
		x.t.Errorf("version %d of %s is not restored: %v, %.40q, want %.40q\n%s", v.ID, name, err, text, v.text, out)
	}
}

// contents are the files of a directory.
func contents(dir string) (map[string]string, error) {
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
		out[name+" mode"] = fmt.Sprintf("%o", info.Mode().Perm())
		return err
	})
	return out, err
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

// last is the last lines of it.
func (r *record) last(n int) string {
	lines := strings.Split(strings.TrimSpace(r.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
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

func start(t *testing.T, cmd *exec.Cmd, out io.Writer, errs *record) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, errs: errs, done: make(chan struct{})}
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
		p.t.Errorf("%v does not end:\n%s", p.cmd.Args, p.errs.last(20))
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
