package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
)

// A subject is a server that is measured.
type subject struct {
	cfg    target.Config
	dir    string // for its files
	server *target.Server
	serial int // makes process ids
}

// dial opens a session.
func (s *subject) dial(ctx context.Context, quick bool) (*raw.Client, error) {
	return dial(ctx, s.server.Addr, quick)
}

func dial(ctx context.Context, addr string, quick bool) (*raw.Client, error) {
	c, err := raw.Dial(ctx, addr, raw.Config{QuickAck: quick})
	if err != nil {
		return nil, err
	}
	if _, err := c.Initialize(""); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// process names a new process.
func (s *subject) process(argv ...string) raw.Start {
	s.serial++
	return raw.NewStart(fmt.Sprintf("p%d", s.serial), argv...)
}

// uri is the file URI of a name in the subject's directory.
func (s *subject) uri(name string) string { return "file://" + s.dir + "/" + name }

// cpu is the processor time the server and its children have used.
func (s *subject) cpu() (self, all time.Duration, err error) {
	self, children, err := s.server.CPU()
	return self, self + children, err
}

// spawnFloor is how long this machine needs to start /bin/true and to wait for it:
// the median of n, in ms.
func spawnFloor(n int) (float64, error) {
	times, err := stats.Repeat(n, func() error {
		p, err := os.StartProcess(truePath(), []string{"true"}, &os.ProcAttr{})
		if err != nil {
			return err
		}
		_, err = p.Wait()
		return err
	})
	return stats.Milliseconds(stats.Median(times)), err
}

func truePath() string {
	if path, err := exec.LookPath("true"); err == nil {
		return path
	}
	return "/bin/true"
}
