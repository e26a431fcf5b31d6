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
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		stop()
		os.Exit(1)
	}
}

// deadline bounds a whole run.
const deadline = 3 * time.Minute

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wsd := flags.String("wsd", "", "the wsd `program`")
	codex := flags.String("codex", "", "the codex `program`, as npm installs it")
	rounds := flags.Int("rounds", 5, "how often each figure is taken")
	only := flags.String("only", "", "take the figures whose names match this `regexp` only")
	parent := flags.String("dir", "", "keep files and homes below `DIR`, the system's temporary one by default")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pick, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := target.Scratch(*parent)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var subjects []*subject
	for _, s := range []struct {
		kind target.Kind
		path string
	}{{target.Wsd, *wsd}, {target.Codex, *codex}} {
		if s.path == "" {
			continue
		}
		path, err := filepath.Abs(s.path)
		if err != nil {
			return err
		}
		home := filepath.Join(dir, "home-"+string(s.kind))
		work := filepath.Join(dir, "work-"+string(s.kind))
		if err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(work, 0o700)); err != nil {
			return err
		}
		subjects = append(subjects, &subject{dir: work, cfg: target.Config{Kind: s.kind, Path: path, Dir: work, Home: home}})
	}
	if len(subjects) == 0 {
		return errors.New("nothing to measure; say --wsd PROGRAM and --codex PROGRAM")
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	r := &results{}
	if err := measureAll(ctx, subjects, *rounds, pick, r, stderr); err != nil {
		return err
	}
	if *asJSON {
		return r.writeJSON(stdout)
	}
	return r.writeTable(stdout)
}

// measureAll takes every figure that pick matches, round by round, each subject in turn.
func measureAll(ctx context.Context, subjects []*subject, rounds int, pick *regexp.Regexp, r *results, progress io.Writer) error {
	for _, s := range subjects {
		server, err := target.Start(ctx, s.cfg)
		if err != nil {
			return err
		}
		defer func() { _ = server.Stop() }()
		s.server = server
	}
	for round := range rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
		floor, err := spawnFloor(30)
		if err != nil {
			return err
		}
		r.add("floor", "", floor)
		for _, m := range measures {
			if !m.matches(pick) {
				continue
			}
			for i := range subjects {
				s := subjects[(i+round)%len(subjects)]
				values, err := m.run(ctx, s)
				if err != nil {
					return fmt.Errorf("%s of %s: %w", m.figures[0], s.cfg.Kind, err)
				}
				for i, v := range values {
					r.add(m.figures[i], s.cfg.Kind, v)
				}
			}
		}
	}
	return nil
}
