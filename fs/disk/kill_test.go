package disk_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// childEnv says that the test binary is a child: it works in the directory that is named.
const childEnv = "WSD_DISK_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A childTester ends the child when something fails.
type childTester struct{}

func (childTester) Helper()                   {}
func (childTester) Error(args ...any)         { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (childTester) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); os.Exit(1) }
func (childTester) Fatal(args ...any)         { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }
func (childTester) Fatalf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); os.Exit(1) }

// child changes the directory, settles and applies until it is killed. It prints the
// number of each batch that has been applied.
func child(dir string) {
	b := &bench{t: childTester{}, dir: filepath.Join(dir, "dir"), store: filepath.Join(dir, "store", "ws.db"), cfg: disk.Config{Watch: true}}
	b.open()
	seed, _ := strconv.ParseUint(os.Getenv(childEnv+"_SEED"), 10, 64)
	rng := rand.New(rand.NewPCG(seed, 1))
	path := func() string {
		p := fmt.Sprintf("d%d", rng.IntN(5))
		for range rng.IntN(3) {
			p += fmt.Sprintf("/e%d", rng.IntN(4))
		}
		return p
	}
	for i := seed * 100_000; ; i++ {
		for range rng.IntN(6) {
			switch rng.IntN(4) {
			case 0:
				_ = os.RemoveAll(b.path(path()))
			case 1:
				_ = os.Rename(b.path(path()), b.path(path()))
			default:
				p := b.path(path())
				_ = os.MkdirAll(filepath.Dir(p), 0o755)
				_ = os.WriteFile(p, []byte(fmt.Sprint("command ", rng.IntN(1000))), 0o644)
			}
		}
		if rng.IntN(2) == 0 {
			b.settle()
		}
		var batch []tree.Entry
		for range 1 + rng.IntN(40) {
			p := "/workspace/" + path()
			switch rng.IntN(6) {
			case 0:
				batch = append(batch, remove(p))
			case 1:
				batch = append(batch, folder(p, 0o700))
			case 2:
				batch = append(batch, link(p, "somewhere"))
			default:
				batch = append(batch, b.file(p, fmt.Sprint("entry ", rng.IntN(1000)), 0o640))
			}
		}
		batch = append(batch, b.file("/workspace/number", fmt.Sprint(i), 0o600))
		if _, err := b.ws.Apply(context.Background(), seq(batch), tree.SkipSame|tree.RealParents, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

// TestKill kills a process that applies and settles, at any instant, again and again. What
// it has said to be applied is, and directory and tree are the same after the next start.
func TestKill(t *testing.T) {
	b := newBench(t, disk.Config{})
	rounds := 30 / fewer
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range rounds {
		b.close()
		last := kill(t, filepath.Dir(b.dir), filepath.Dir(b.store), round+1, time.Duration(rng.IntN(150))*time.Millisecond)
		b.open()
		b.must(b.db.Check(t.Context()))
		b.check()
		b.same()
		if last != "" {
			data, err := os.ReadFile(b.path("number"))
			number, _ := strconv.Atoi(string(data))
			if said, _ := strconv.Atoi(last); err != nil || number < said {
				t.Errorf("round %d: the file has %q, %v; %s was applied", round, data, err, last)
			}
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

// kill lets a child work for a while and kills it. It returns what the child said last.
func kill(t *testing.T, dir, store string, seed int, after time.Duration) string {
	t.Helper()
	// Both are in one directory for the child.
	if err := os.Symlink(store, filepath.Join(dir, "store")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_SEED="+fmt.Sprint(seed))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("the child said nothing: %v\n%s", err, stderr.String())
	}
	time.AfterFunc(after, func() { _ = cmd.Process.Signal(unix.SIGKILL) })
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if stderr.Len() > 0 {
		t.Fatalf("the child failed:\n%s", stderr.String())
	}
	all := strings.Split(strings.TrimSuffix(first+string(rest), "\n"), "\n")
	if !strings.HasSuffix(string(rest), "\n") && len(rest) > 0 {
		all = all[:len(all)-1]
	}
	return all[len(all)-1]
}
