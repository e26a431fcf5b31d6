package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "synctools:", err)
		stop()
		os.Exit(1)
	}
}

// A scale says how large all is.
type scale struct {
	files   int    // of 10 KiB
	modules int    // in node_modules
	source  string // what is taken of Go's source tree
	moved   string // which directory of that is renamed
	changes int    // small ones at once, at most
	rounds  int    // of the two smaller trees
	samples int    // of each direction, where files are watched
	limit   time.Duration
	budget  time.Duration // for everything
	need    int64         // about how many bytes of disk
}

var scales = map[string]scale{
	"full": {
		files: 12_800, modules: 114_000, source: ".", moved: "cmd", changes: 10_000, rounds: 3, samples: 30,
		limit: 4 * time.Minute, budget: 20 * time.Minute, need: 16 << 30,
	},
	"small": {
		files: 400, modules: 2_000, source: "net", moved: "http", changes: 200, rounds: 2, samples: 4,
		limit: 20 * time.Second, budget: 90 * time.Second, need: 1 << 30,
	},
}

var errBudget = errors.New("the time for all is up")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("synctools", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wsdPath := flags.String("wsd", "", "the wsd `program`")
	mutagenPath := flags.String("mutagen", "", "the mutagen `program`; without it there is no mutagen")
	size := flags.String("scale", "full", "how large all is: full (20 minutes at most) or small (1 minute)")
	only := flags.String("only", "", "take the trees whose names match this `regexp`; the one of equal files is also the one that is watched")
	parent := flags.String("dir", "", "keep files below `DIR`, which is on a disk; the system's temporary one by default")
	rounds := flags.Int("rounds", 0, "take `N` rounds of each tree, instead of as many as the scale says")
	asJSON := flags.Bool("json", false, "print JSON, with every round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, ok := scales[*size]
	if !ok {
		return fmt.Errorf("no scale is called %q; say --scale full or --scale small", *size)
	}
	if *wsdPath == "" {
		return errors.New("nothing to measure; say --wsd PROGRAM")
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	b := &bench{scale: s, begin: time.Now(), progress: stderr}
	if err := b.findTools(ctx, *wsdPath, *mutagenPath); err != nil {
		return err
	}
	if err := b.findTrees(ctx, pick, *rounds); err != nil {
		return err
	}
	if b.dir, err = target.Scratch(*parent); err != nil {
		return err
	}
	// Not before the end: see the package's comment.
	defer func() {
		b.tell("remove what was made")
		os.RemoveAll(b.dir)
	}()
	room, err := target.Room(b.dir)
	if err != nil {
		return err
	}
	if room < s.need {
		return fmt.Errorf("%s has room for %.1f GB, and about %.1f GB are needed; name another directory, or --scale small", b.dir, float64(room)/1e9, float64(s.need)/1e9)
	}
	within, cancel := context.WithTimeoutCause(ctx, s.budget, errBudget)
	defer cancel()
	if err := b.run(within); errors.Is(err, errBudget) {
		b.note("%v: not all was measured within %v", errBudget, s.budget)
	} else if err != nil {
		return err
	}
	if *asJSON {
		return b.writeJSON(stdout, b.trees)
	}
	return b.writeTables(stdout, b.trees)
}

// findTools looks for the programs. Those that are missing are noted.
func (b *bench) findTools(ctx context.Context, wsdPath, mutagenPath string) error {
	path, err := filepath.Abs(wsdPath)
	if err != nil {
		return err
	}
	help, err := exec.CommandContext(ctx, path, "sync", "--help").Output()
	if err != nil {
		return fmt.Errorf("%s sync --help: %w", wsdPath, err)
	}
	b.tools = append(b.tools, wsd(path, known(string(help))))
	if mutagenPath == "" {
		b.note("mutagen is not measured: no --mutagen PROGRAM")
	} else {
		path, err := filepath.Abs(mutagenPath)
		if err != nil {
			return err
		}
		b.tools = append(b.tools, mutagen(path))
	}
	for _, other := range []struct {
		name string
		tool func(path string) *tool
	}{{"rsync", rsync}, {"unison", unison}} {
		path, err := exec.LookPath(other.name)
		if err != nil {
			b.note("%s is not measured: it is not on the PATH (the package %s has it)", other.name, other.name)
			continue
		}
		b.tools = append(b.tools, other.tool(path))
	}
	return nil
}

// findTrees says which trees there are.
func (b *bench) findTrees(ctx context.Context, pick *regexp.Regexp, rounds int) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	s := b.scale
	if rounds > 0 {
		s.rounds = rounds
	}
	files := &tree{name: fmt.Sprintf("%d files of 10 KiB", s.files), make: equal(s.files), moved: "all", rounds: s.rounds}
	all := []*tree{
		{
			name: "Go's source tree", moved: filepath.Join("src", s.moved), rounds: s.rounds,
			make: copied(filepath.Join(strings.TrimSpace(string(root)), "src", s.source), s.moved),
		},
		files,
		// It takes as long as the others together.
		{name: fmt.Sprintf("node_modules of %d files", s.modules), make: nodeModules(s.modules), moved: scope, rounds: max(1, rounds)},
	}
	for _, t := range all {
		if pick.MatchString(t.name) {
			b.trees = append(b.trees, t)
		}
	}
	if slices.Contains(b.trees, files) {
		b.observed = files
	}
	if len(b.trees) == 0 {
		return errors.New("--only matches no tree")
	}
	return nil
}
