package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// A tool keeps two directories the same.
type tool struct {
	name    string
	path    string   // the program
	more    []string // flags of the program that is measured
	watches bool     // it can bring changes by itself
	// open makes a pair of two directories, of which one is empty. A pair that watches is
	// brought up to date first.
	open func(ctx context.Context, t *tool, p *pair) error
}

// A pair is what a tool has for two directories.
type pair struct {
	tool        *tool
	here, there string // what is brought from where to where
	home        string // for the files of the tool
	watches     bool   // it is there to watch, not to be called

	env    []string
	server *target.Server // that runs all the time, if there is one
	apart  bool           // the server writes there, and commands here
	store  [2]string      // what is kept here and there beside the directories

	first, again [][]string // the commands that bring all, and what changed
	// begin and end are around the time in which it watches.
	begin, end func(ctx context.Context) error
	watcher    *target.Server // the command that watches, if it is not the server
}

// A cost is what one synchronisation took: here and there for a tool that has processes
// for each, else all of it here.
type cost struct {
	Wall  time.Duration
	Sides [2]target.Usage
	Store [2]int64 // bytes on the disk
}

// openPair sets a tool up for two directories; there is made.
func openPair(ctx context.Context, t *tool, here, dir string, watches bool) (*pair, error) {
	p := &pair{tool: t, here: here, there: filepath.Join(dir, "there"), home: filepath.Join(dir, "home"), watches: watches}
	for _, d := range []string{p.there, p.home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	p.env = (&target.Config{Home: p.home}).Environ()
	if err := t.open(ctx, t, p); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", t.name, err), p.close())
	}
	return p, nil
}

// close ends the processes of a pair.
func (p *pair) close() error {
	var err error
	for _, s := range []*target.Server{p.watcher, p.server} {
		if s != nil {
			// A server that was asked to end may say so with its status.
			if e := s.Stop(); e != nil && !errors.As(e, new(*exec.ExitError)) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// spawn runs a program that goes on until the pair is closed.
func (p *pair) spawn(ctx context.Context, log io.Writer, argv ...string) (*target.Server, error) {
	return target.Run(ctx, target.Config{Kind: target.Kind(p.tool.name), Dir: p.home, Home: p.home, Env: p.env, Log: log}, argv...)
}

// command runs a program of the tool to its end.
func (p *pair) command(ctx context.Context, argv []string) (target.Usage, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.home, p.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	u, err := target.Measure(cmd)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return u, fmt.Errorf("%s: %w%s", filepath.Base(argv[0]), err, tail(out.String()))
	}
	return u, nil
}

// tail is the end of what a program printed, on a line.
func tail(out string) string {
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// sync brings what changed here to there and returns what that cost.
func (p *pair) sync(ctx context.Context, first bool, limit time.Duration) (c cost, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()
	var before target.Usage
	if p.server != nil {
		if err := p.server.ResetPeak(); err != nil {
			return c, err
		}
		if before, err = p.server.Usage(); err != nil {
			return c, err
		}
	}
	commands := p.again
	if first {
		commands = p.first
	}
	begin := time.Now()
	for _, argv := range commands {
		u, err := p.command(ctx, argv)
		if err != nil {
			return c, err
		}
		c.Sides[0] = c.Sides[0].Then(u)
	}
	c.Wall = time.Since(begin)
	if p.server != nil {
		after, err := idle(ctx, p.server)
		if err != nil {
			return c, err
		}
		side := 0
		if p.apart {
			side = 1
		}
		c.Sides[side] = c.Sides[side].Plus(after.Since(before))
	}
	for i, dir := range p.store {
		if dir != "" {
			if c.Store[i], err = occupied(dir); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// idlePause is how long a server must have done nothing to be idle.
const idlePause = 150 * time.Millisecond

// idle waits until a server has nothing more to do, for some seconds, and returns what it
// has cost.
func idle(ctx context.Context, s *target.Server) (u target.Usage, err error) {
	tick := time.NewTicker(idlePause)
	defer tick.Stop()
	for range 20 {
		before := u
		if u, err = s.Usage(); err != nil || u.CPU == before.CPU {
			return u, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return u, context.Cause(ctx)
		}
	}
	return u, nil
}

// occupied is what all files below a directory take on the disk.
func occupied(dir string) (n int64, err error) {
	l, err := list(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range l.paths {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			n += s.Blocks * 512
		}
	}
	return n, nil
}

// wsd is `wsd sync` with a server of its own, over loopback.
func wsd(path string, more []string) *tool {
	return &tool{name: "wsd", path: path, more: more, watches: true, open: func(ctx context.Context, t *tool, p *pair) (err error) {
		host := filepath.Join(p.home, "server")
		if err := os.MkdirAll(host, 0o755); err != nil {
			return err
		}
		p.store = [2]string{filepath.Join(p.home, "state"), filepath.Join(host, "store")}
		p.apart = true
		if err := os.MkdirAll(p.store[1], 0o755); err != nil {
			return err
		}
		p.server, err = target.Start(ctx, target.Config{
			Kind: target.Wsd, Path: t.path, Dir: host, Home: host, Log: os.Stderr,
			Args: []string{"--log-level", "error", "--workspace", p.there, "--store", filepath.Join(p.store[1], "store.db")},
		})
		if err != nil {
			return err
		}
		argv := slices.Concat([]string{t.path, "sync", "--quiet"}, t.more, []string{p.here, p.server.URL})
		p.first = [][]string{argv}
		p.again = p.first
		if !p.watches {
			return nil
		}
		p.begin = func(ctx context.Context) error {
			p.watcher, err = p.spawn(ctx, os.Stderr, append(slices.Clone(argv), "--watch")...)
			return err
		}
		p.end = func(context.Context) error {
			err := p.watcher.Stop()
			p.watcher = nil
			return err
		}
		_, err = p.command(ctx, argv)
		return err
	}}
}

// wantedFlags are given to a wsd that knows them: a deleted tree is no mistake here.
var wantedFlags = []string{"--max-delete=100%"}

// known returns those of wantedFlags that a help text names.
func known(help string) (flags []string) {
	for _, f := range wantedFlags {
		name, _, _ := strings.Cut(f, "=")
		if strings.Contains(help, name+" ") {
			flags = append(flags, f)
		}
	}
	return flags
}

// rsync copies.
func rsync(path string) *tool {
	return &tool{name: "rsync", path: path, open: func(_ context.Context, t *tool, p *pair) error {
		p.first = [][]string{{t.path, "-a", "--delete", p.here + "/", p.there + "/"}}
		p.again = p.first
		return nil
	}}
}

// unison has its archive in a directory of its own.
func unison(path string) *tool {
	return &tool{name: "unison", path: path, open: func(_ context.Context, t *tool, p *pair) error {
		p.store[0] = filepath.Join(p.home, "unison")
		if err := os.MkdirAll(p.store[0], 0o755); err != nil {
			return err
		}
		p.env = append(p.env, "UNISON="+p.store[0])
		p.first = [][]string{{t.path, "-ui", "text", "-batch", "-silent", "-log=false", "-confirmbigdel=false", p.here, p.there}}
		p.again = p.first
		return nil
	}}
}

// session is the name of a session of mutagen.
const session = "bench"

// mutagen has a daemon of its own, and a session that watches only where that is measured.
func mutagen(path string) *tool {
	return &tool{name: "mutagen", path: path, watches: true, open: func(ctx context.Context, t *tool, p *pair) (err error) {
		p.store[0] = filepath.Join(p.home, "m")
		p.env = append(p.env, "MUTAGEN_DATA_DIRECTORY="+p.store[0], "MUTAGEN_DISABLE_AUTOSTART=1")
		// As it ends it prints that it was ended.
		if p.server, err = p.spawn(ctx, nil, t.path, "daemon", "run"); err != nil {
			return err
		}
		if err := answers(ctx, p, []string{t.path, "sync", "list"}); err != nil {
			return err
		}
		create := []string{t.path, "sync", "create", "--no-global-configuration", "--mode", "two-way-resolved", "--name", session}
		if !p.watches {
			create = append(create, "--watch-mode", "no-watch")
		}
		create = append(create, p.here, p.there)
		flush := []string{t.path, "sync", "flush", session}
		p.first, p.again = [][]string{create, flush}, [][]string{flush}
		if !p.watches {
			return nil
		}
		step := func(verb string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := p.command(ctx, []string{t.path, "sync", verb, session})
				return err
			}
		}
		p.begin, p.end = step("resume"), step("pause")
		for _, argv := range p.first {
			if _, err := p.command(ctx, argv); err != nil {
				return err
			}
		}
		return p.end(ctx)
	}}
}

// answers waits until a daemon answers a command.
func answers(ctx context.Context, p *pair, argv []string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := p.command(ctx, argv)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.server.Done():
			return errors.New("the daemon has ended")
		case <-ctx.Done():
			return err
		}
	}
}
