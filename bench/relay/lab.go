package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/relay/frame"
)

// A lab is the programs that are measured, and where they keep their files.
type lab struct {
	wsd, codex string // codex may be ""
	dir        string

	stop []func() error
}

func (l *lab) close() error {
	var errs []error
	for i := len(l.stop) - 1; i >= 0; i-- {
		errs = append(errs, l.stop[i]())
	}
	return errors.Join(errs...)
}

// home makes a directory for a program's files.
func (l *lab) home(name string) (string, error) {
	dir := filepath.Join(l.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}

func (l *lab) state(name string) string { return "sqlite:" + filepath.Join(l.dir, name, "relay.db") }

// startRelay starts a relay on a free port.
func (l *lab) startRelay(ctx context.Context, name string) (*target.Server, error) {
	home, err := l.home(name)
	if err != nil {
		return nil, err
	}
	return target.Start(ctx, target.Config{
		Kind: target.Relay, Path: l.wsd, Dir: home, Home: home,
		Args: []string{"--state", l.state(name), "--log-level", "error"},
	})
}

// token makes a token of the relay that was started under the name.
func (l *lab) token(ctx context.Context, name, role, env string) (string, error) {
	cmd := exec.CommandContext(ctx, l.wsd, "relay", "token", "create",
		"--state", l.state(name), "--role", role, "--environment", env)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("make a token: %w: %s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// open starts a relay, wsd's executor with an address of its own too, and codex's, and
// returns the ways to them.
func (l *lab) open(ctx context.Context) ([]*way, error) {
	server, err := l.startRelay(ctx, "relay")
	if err != nil {
		return nil, err
	}
	l.stop = append(l.stop, server.Stop)
	client, err := l.token(ctx, "relay", "harness", "*")
	if err != nil {
		return nil, err
	}
	executor, err := l.token(ctx, "relay", "executor", "*")
	if err != nil {
		return nil, err
	}
	home, err := l.home("wsd")
	if err != nil {
		return nil, err
	}
	wsd, err := target.Start(ctx, target.Config{
		Kind: target.Wsd, Path: l.wsd, Dir: home, Home: home, Env: []string{"WSD_TOKEN=" + executor},
		Args: []string{"--remote", server.URL, "--environment-id", "wsd", "--log-level", "error"},
	})
	if err != nil {
		return nil, err
	}
	l.stop = append(l.stop, wsd.Stop)
	ways := []*way{{name: "direct", executor: wsd}}
	add := func(name, env string, executor *target.Server, profile frame.Profile) error {
		w, err := through(name, server, executor, env, client, profile)
		ways = append(ways, w)
		return err
	}
	if err := errors.Join(add("reliable", "wsd", wsd, frame.Reliable), add("codex profile", "wsd", wsd, frame.Codex)); err != nil {
		return nil, err
	}
	if l.codex == "" {
		return ways, nil
	}
	program, err := target.Native(l.codex)
	if err != nil {
		return nil, err
	}
	if home, err = l.home("codex"); err != nil {
		return nil, err
	}
	peer, err := target.Run(ctx, target.Config{Kind: target.Codex, Dir: home, Home: home, Env: []string{"CODEX_API_KEY=" + executor}},
		program, "exec-server", "--remote", server.URL, "--environment-id", "codex")
	if err != nil {
		return nil, err
	}
	l.stop = append(l.stop, peer.Stop)
	return ways, add("codex", "codex", peer, frame.Codex)
}
