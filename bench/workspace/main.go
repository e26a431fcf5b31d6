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
		fmt.Fprintln(os.Stderr, "workspace:", err)
		stop()
		os.Exit(1)
	}
}

// deadline bounds a whole run.
const deadline = 10 * time.Minute

// A part is a group of figures, with a server of its own.
type part struct {
	name string
	run  func(ctx context.Context, l *lab, r *report) error
}

var parts = []part{
	{"wire", wire},
	{"commands", commands},
	{"tree", sourceTree},
	{"one", oneChange},
	{"edit", edit},
	{"baseline", baseline},
	{"curve", curve},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("workspace", flag.ContinueOnError)
	flags.SetOutput(stderr)
	wsd := flags.String("wsd", "", "the wsd `program`")
	source := flags.String("tree", "", "the source tree to push and pull: `DIR`, by default that of Go")
	only := flags.String("only", "", "take the parts whose names match this `regexp`: wire, commands, tree, one, edit, baseline, curve")
	parent := flags.String("dir", "", "keep files below `DIR`, the system's temporary one by default")
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
	l := &lab{source: *source}
	if l.wsd, err = filepath.Abs(*wsd); err != nil {
		return err
	}
	if l.dir, err = target.Scratch(*parent); err != nil {
		return err
	}
	// Not before the end: see the package's comment.
	defer os.RemoveAll(l.dir)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	r := &report{}
	for _, p := range parts {
		if !pick.MatchString(p.name) {
			continue
		}
		fmt.Fprintln(stderr, p.name)
		if err := p.run(ctx, l, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if *asJSON {
		return r.writeJSON(stdout)
	}
	return r.writeTable(stdout)
}
