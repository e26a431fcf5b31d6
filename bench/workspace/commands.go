package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"
	"github.com/wsd-dev/wsd/client"
)

// commands measures durable runs: how many a second, one after the other, and how fast
// the output of one comes.
func commands(ctx context.Context, l *lab, r *report) error {
	const runs, bytes = 300, 128 << 20
	return l.with(ctx, "", nil, func(s *served) error {
		begin := time.Now()
		for range runs {
			if err := s.runs(ctx, "true", io.Discard); err != nil {
				return err
			}
		}
		r.atLeast("commands", runs/time.Since(begin).Seconds(), "/s", "reference 34 to 54", 540)

		cpu, _, err := s.CPU()
		if err != nil {
			return err
		}
		begin = time.Now()
		var n counter
		if err := s.runs(ctx, fmt.Sprintf("head -c %d /dev/zero", bytes), &n); err != nil {
			return err
		}
		took := time.Since(begin)
		if n != bytes {
			return fmt.Errorf("%d bytes of output, of %d", n, bytes)
		}
		after, _, err := s.CPU()
		if err != nil {
			return err
		}
		r.atLeast("stdout", stats.Rate(bytes, took), "MB/s", "reference 20", 200)
		r.plain("stdout, cpu", stats.Milliseconds(after-cpu)/(bytes/1e6), "ms/MB", "of the server")
		rss, err := s.rss()
		r.atMost("rss after it", rss, "MiB", "reference 298", 60)
		return err
	})
}

// runs runs a command to its end.
func (s *served) runs(ctx context.Context, line string, stdout io.Writer) error {
	run, err := s.client.Exec(ctx, client.DurableCommand{Line: line})
	if err != nil {
		return err
	}
	code, err := run.Wait(ctx, stdout, io.Discard)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s ended with %d", line, code)
	}
	return err
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
