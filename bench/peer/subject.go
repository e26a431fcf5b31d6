package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

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
	times, err := repeat(n, func() error {
		p, err := os.StartProcess(truePath(), []string{"true"}, &os.ProcAttr{})
		if err != nil {
			return err
		}
		_, err = p.Wait()
		return err
	})
	return ms(median(times)), err
}

func truePath() string {
	if path, err := exec.LookPath("true"); err == nil {
		return path
	}
	return "/bin/true"
}

// repeat times f, n times.
func repeat(n int, f func() error) ([]time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
	}
	return times, nil
}

func median[T time.Duration | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// rate is MB (10^6 bytes) a second.
func rate(bytes int, d time.Duration) float64 { return float64(bytes) / 1e6 / d.Seconds() }

// closed reports whether m says that the process id has closed.
func closed(m raw.Message, id string) bool {
	return m.Method == "process/closed" && string(m.Text("processId")) == id
}

// readUntil reads until done is satisfied. Error responses are errors.
func readUntil(c *raw.Client, done func(raw.Message) bool) error {
	for {
		m, err := c.Read()
		if err != nil {
			return err
		}
		if m.Failed {
			return fmt.Errorf("refused: %.300s", strings.TrimSpace(string(m.Raw)))
		}
		if done(m) {
			return nil
		}
	}
}
