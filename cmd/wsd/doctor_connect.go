package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// roundTrips is how many times doctor asks a server for its status.
const roundTrips = 200

// doctorPatience bounds all that doctor asks of a server.
const doctorPatience = 30 * time.Second

// connectionCheck is what doctor finds of a server. Times are microseconds.
type connectionCheck struct {
	URL     string `json:"url"`
	Error   string `json:"error,omitempty"` // why it could not be asked
	Hint    string `json:"hint,omitempty"`  // what to do about that
	Hops    []hop  `json:"hops,omitempty"`  // of a relay URL
	Version string `json:"version,omitempty"`
	Cwd     string `json:"cwd,omitempty"` // file URI
	// Connect is the time to connect and initialize, Process that of one command that
	// does nothing.
	Connect int64 `json:"connectMicros,omitempty"`
	Median  int64 `json:"roundTripMedianMicros,omitempty"`
	Slowest int64 `json:"roundTripP99Micros,omitempty"`
	Process int64 `json:"processMicros,omitempty"`
}

// examineConnection asks the server that the flags name.
func examineConnection(ctx context.Context, a *app, flags *connectFlags) *connectionCheck {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	c := &connectionCheck{URL: flags.url}
	measure := c.measureDirect
	if client.IsRelayURL(c.URL) {
		measure = c.measureRelay
	}
	if err := measure(ctx, a, flags); err != nil {
		c.Error = err.Error()
		if hinted, ok := errors.AsType[*hintedError](err); ok {
			c.Hint = hinted.hint
		}
	}
	return c
}

func (c *connectionCheck) measureDirect(ctx context.Context, a *app, flags *connectFlags) error {
	return c.measureServer(ctx, a, flags, client.Options{})
}

func (c *connectionCheck) measureServer(ctx context.Context, a *app, flags *connectFlags, opts client.Options) error {
	began := time.Now()
	opts.ClientName, opts.ConnectTimeout, opts.Reconnect.Disabled = "wsd doctor", flags.timeout, true
	conn, err := flags.dialURL(ctx, a, c.URL, opts)
	if err != nil {
		return err
	}
	c.Connect = time.Since(began).Microseconds()
	defer conn.Close()
	info, err := conn.Environment(ctx)
	if err != nil {
		return err
	}
	c.Version, c.Cwd = info.ExecutorVersion, info.Cwd
	if err := c.measureRoundTrips(ctx, conn); err != nil {
		return err
	}
	return c.measureProcess(ctx, conn, info)
}

func (c *connectionCheck) measureRoundTrips(ctx context.Context, conn *client.Client) error {
	times := make([]time.Duration, roundTrips)
	for i := range times {
		began := time.Now()
		if _, err := conn.Status(ctx); err != nil {
			return err
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	c.Median = times[len(times)/2].Microseconds()
	c.Slowest = times[len(times)*99/100].Microseconds()
	return nil
}

// measureProcess runs a shell that does nothing.
func (c *connectionCheck) measureProcess(ctx context.Context, conn *client.Client, info protocol.EnvironmentInfo) error {
	began := time.Now()
	p, err := conn.Start(ctx, client.Command{Argv: []string{info.Shell.Path, "-c", ":"}})
	if err != nil {
		return fmt.Errorf("run a command: %w", err)
	}
	status, err := p.Wait(ctx)
	if err != nil {
		return fmt.Errorf("run a command: %w", err)
	}
	if status.Code != 0 {
		return errors.New("run a command: the shell fails")
	}
	c.Process = time.Since(began).Microseconds()
	return nil
}

func (c *connectionCheck) text() string {
	if c.Error == "" {
		return hopsText(c.Hops) + fmt.Sprintf("ok  %s: wsd %s in %s\n", safe(c.URL), safe(c.Version), safe(c.Cwd)) +
			fmt.Sprintf("connect %v, round trip %v (p99 %v), one command %v\n",
				micros(c.Connect), micros(c.Median), micros(c.Slowest), micros(c.Process))
	}
	text := fmt.Sprintf("missing  %s: %s\n", safe(c.URL), safeError(c.Error))
	if n := len(c.Hops); n > 0 && !c.Hops[n-1].OK {
		text = fmt.Sprintf("missing  %s: the way ends at %s\n", safe(c.URL), c.Hops[n-1].Name)
	}
	text = hopsText(c.Hops) + text
	if c.Hint != "" {
		text += "Hint: " + safeError(c.Hint) + "\n"
	}
	return text
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
