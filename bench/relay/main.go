package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		stop()
		os.Exit(1)
	}
}

// deadline bounds a whole run.
const deadline = 5 * time.Minute

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wsd := flags.String("wsd", "", "the wsd `program`")
	codex := flags.String("codex", "", "the codex `program`, as npm installs it")
	rounds := flags.Int("rounds", 5, "how often each figure is taken")
	only := flags.String("only", "", "take what matches this `regexp` only: figures, idle, curve")
	executors := flags.Int("executors", 5000, "how many idle executors to attach")
	calls := flags.Int("calls", 8192, "round trips of each point of the curve")
	parent := flags.String("dir", "", "keep files and homes below `DIR`, the system's temporary one by default")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *wsd == "" {
		return errors.New("nothing to measure; say --wsd PROGRAM")
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	l := &lab{}
	if l.wsd, err = filepath.Abs(*wsd); err != nil {
		return err
	}
	if *codex != "" { // its processes have working directories of their own
		if l.codex, err = filepath.Abs(*codex); err != nil {
			return err
		}
	}
	if l.dir, err = target.Scratch(*parent); err != nil {
		return err
	}
	defer os.RemoveAll(l.dir)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	defer func() { err = errors.Join(err, l.close()) }()
	ways, err := l.open(ctx)
	if err != nil {
		return err
	}
	r := &report{}
	if err := measureAll(ctx, ways, *rounds, pick, r, stderr); err != nil {
		return err
	}
	if pick.MatchString("curve") {
		fmt.Fprintln(stderr, "1 to 128 streams")
		if r.Curve, err = curve(ctx, ways[1], *calls); err != nil {
			return err
		}
	}
	if pick.MatchString("idle") {
		fmt.Fprintf(stderr, "%d idle executors\n", *executors)
		kib, err := l.idle(ctx, *executors)
		if err != nil {
			return err
		}
		r.Idle, r.Executors = &kib, *executors
	}
	if *asJSON {
		return r.writeJSON(stdout)
	}
	return r.writeTable(stdout)
}

// measureAll takes every figure that pick matches, round by round, each way in turn.
func measureAll(ctx context.Context, ways []*way, rounds int, pick *regexp.Regexp, r *report, progress io.Writer) error {
	for _, w := range ways {
		r.Ways = append(r.Ways, w.name)
	}
	for round := range rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
		for _, m := range measures {
			if !slices.ContainsFunc(m.figures, pick.MatchString) {
				continue
			}
			for i := range ways {
				w := ways[(i+round)%len(ways)]
				values, err := m.run(ctx, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", m.figures[0], w.name, err)
				}
				for i, v := range values {
					r.add(m.figures[i], w.name, v)
				}
			}
		}
	}
	return nil
}
