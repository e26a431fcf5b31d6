package main

import (
	"context"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"

	"github.com/wsd-dev/wsd/bench/raw"
)

const (
	oneShots    = 30
	startCount  = 120
	startWindow = 16
	stdoutBytes = 128 << 20
	keystrokes  = 40
)

// oneShot runs `true` again and again: p50 until closed in ms, and processor time a
// command in ms.
func oneShot(quick bool) func(context.Context, *subject) ([]float64, error) {
	return func(ctx context.Context, s *subject) ([]float64, error) {
		c, err := s.dial(ctx, quick)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		_, before, err := s.cpu()
		if err != nil {
			return nil, err
		}
		times, err := stats.Repeat(oneShots, func() error {
			p := s.process("true")
			if _, err := c.Request("process/start", p); err != nil {
				return err
			}
			return c.ReadUntil(func(m raw.Message) bool { return m.Closes(p.ProcessID) })
		})
		if err != nil {
			return nil, err
		}
		_, after, err := s.cpu()
		values := []float64{stats.Milliseconds(stats.Median(times)), stats.Milliseconds(after-before) / oneShots}
		if quick {
			values = values[:1]
		}
		return values, err
	}
}

// starts runs many commands, several at a time: commands a second.
func starts(ctx context.Context, s *subject) ([]float64, error) {
	c, err := s.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	begin, sent, ended := time.Now(), 0, 0
	send := func() error {
		sent++
		_, err := c.Request("process/start", s.process("true"))
		return err
	}
	for range startWindow {
		if err := send(); err != nil {
			return nil, err
		}
	}
	var failed error
	err = c.ReadUntil(func(m raw.Message) bool {
		if m.Method == "process/closed" {
			ended++
			if sent < startCount {
				failed = send()
			}
		}
		return ended == startCount || failed != nil
	})
	if err == nil {
		err = failed
	}
	return []float64{startCount / time.Since(begin).Seconds()}, err
}

// stdout lets a child print: MB a second, and the server's processor time in ms a MB.
func stdout(ctx context.Context, s *subject) ([]float64, error) {
	c, err := s.dial(ctx, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	before, _, err := s.cpu()
	if err != nil {
		return nil, err
	}
	p, got, begin := s.process("head", "-c", "134217728", "/dev/zero"), 0, time.Now()
	if _, err := c.Request("process/start", p); err != nil {
		return nil, err
	}
	err = c.ReadUntil(func(m raw.Message) bool {
		if m.Method == "process/output" {
			got += m.DataBytes("chunk")
		}
		return m.Closes(p.ProcessID)
	})
	took := time.Since(begin)
	if err == nil && got != stdoutBytes {
		err = errShort(got, stdoutBytes)
	}
	if err != nil {
		return nil, err
	}
	after, _, err := s.cpu()
	return []float64{stats.Rate(got, took), stats.Milliseconds(after-before) / (stdoutBytes / 1e6)}, err
}

// echo types at a terminal: p50 from keystroke to echo in ms.
func echo(quick bool) func(context.Context, *subject) ([]float64, error) {
	return func(ctx context.Context, s *subject) ([]float64, error) {
		c, err := s.dial(ctx, quick)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		p := s.process("cat")
		p.TTY = true
		if err := c.Call("process/start", p, nil); err != nil {
			return nil, err
		}
		// Each message is made before the clock runs.
		type keystroke struct {
			ProcessID string `json:"processId"`
			Chunk     []byte `json:"chunk"`
			WriteID   string `json:"writeId"`
		}
		var times []time.Duration
		for i := range keystrokes {
			id, msg, err := c.Encode("process/write", keystroke{p.ProcessID, []byte("x"), string(rune('A' + i))})
			if err != nil {
				return nil, err
			}
			begin, answered, echoed := time.Now(), false, false
			if err := c.Send(msg); err != nil {
				return nil, err
			}
			err = c.ReadUntil(func(m raw.Message) bool {
				if m.Method == "process/output" && !echoed {
					echoed = true
					times = append(times, time.Since(begin))
				}
				answered = answered || m.Method == "" && m.ID == id
				return echoed && answered
			})
			if err != nil {
				return nil, err
			}
		}
		if _, err := c.Request("process/terminate", map[string]string{"processId": p.ProcessID}); err != nil {
			return nil, err
		}
		err = c.ReadUntil(func(m raw.Message) bool { return m.Closes(p.ProcessID) })
		return []float64{stats.Milliseconds(stats.Median(times))}, err
	}
}
