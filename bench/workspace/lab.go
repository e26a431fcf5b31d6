package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
)

// A lab is where servers are started.
type lab struct {
	wsd    string // the program
	source string // a source tree
	dir    string // for files
}

// A served workspace is a server with a directory, and a client of it.
type served struct {
	*target.Server
	dir    string // what it serves
	store  string
	client *client.Client
	peer   changes.Peer
}

// mountPoint is where the directory stands in the protocol.
const mountPoint = "/workspace"

// serve starts a server for dir, which is made when it is "".
func (l *lab) serve(ctx context.Context, dir string, args ...string) (*served, error) {
	home, err := os.MkdirTemp(l.dir, "home-")
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = filepath.Join(home, "workspace")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	s := &served{dir: dir, store: filepath.Join(home, "store.db")}
	s.Server, err = target.Start(ctx, target.Config{
		Kind: target.Wsd, Path: l.wsd, Dir: home, Home: home, Log: os.Stderr,
		Args: append([]string{"--log-level", "error", "--workspace", dir, "--store", s.store}, args...),
	})
	if err != nil {
		return nil, err
	}
	if s.client, err = client.Dial(ctx, s.URL, nil); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	s.peer = s.client.Sync()
	return s, nil
}

func (s *served) close() error {
	return errors.Join(s.client.Close(), s.Stop())
}

// rss is the server's memory in MiB.
func (s *served) rss() (float64, error) {
	n, err := s.RSS()
	return float64(n) / (1 << 20), err
}

// with runs f with a server.
func (l *lab) with(ctx context.Context, dir string, args []string, f func(s *served) error) error {
	s, err := l.serve(ctx, dir, args...)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.close())
}

// makeFiles makes n small files, a hundred in a directory, each with content of its own.
func makeFiles(dir string, n int) error {
	for i := range n {
		d := filepath.Join(dir, fmt.Sprintf("d%04d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("f%02d.txt", i%100)), fmt.Appendf(nil, "this is file %d\n", i), 0o644); err != nil {
			return err
		}
	}
	return nil
}
