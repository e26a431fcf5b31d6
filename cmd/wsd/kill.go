package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/client"
)

func newKillCmd(a *app) *cobra.Command {
	var connect connectFlags
	var signal string
	cmd := &cobra.Command{
		Use:   "kill [flags] ID...",
		Short: "Send a signal to what the server runs",
		Long: `Sends a signal, SIGTERM unless -s says otherwise, to processes or durable runs, and
all that they have started in their process groups. An ID is that of 'wsd ps', or
its beginning where that is unique, or a pid that 'wsd ps' shows. Durable runs can
be sent TERM, KILL, INT and HUP.

` + connectHelp + `

Exit status: 0; 1 when a process was not found or could not be told.`,
		Example: "  wsd kill rhq4xw-1\n  wsd kill -s KILL rhq4xw-1 rhq4xw-2\n  wsd kill -s INT 4711",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("'wsd ps' lists the IDs", "no process to send a signal to")
			}
			if _, err := signalName(signal); err != nil {
				return err
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := signalName(signal)
			if err != nil {
				return err
			}
			return connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return killAll(ctx, a, c, args, name)
			})
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "TERM", "send `SIGNAL`: a name such as TERM or SIGTERM, or a number")
	connect.add(cmd.Flags())
	return cmd
}

// signalName turns what a user writes into a name that the wire knows.
func signalName(text string) (string, error) {
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if unix.SignalNum(name) != 0 {
		return name, nil
	}
	var number int
	if _, err := fmt.Sscanf(text, "%d", &number); err == nil && number > 0 && number <= 64 {
		return fmt.Sprint(number), nil
	}
	return "", usagef("write -s TERM, -s INT or -s 9", "unknown signal %q", text)
}

func killAll(ctx context.Context, a *app, c *client.Client, ids []string, signal string) error {
	list, _, err := psList(ctx, c, false)
	if err != nil {
		return err
	}
	failed := false
	for _, id := range ids {
		p, err := findProcess(list, id)
		if err == nil {
			err = p.kill(ctx, c, signal)
		}
		if errors.Is(err, client.ErrTransportClosed) {
			return err
		}
		if err != nil {
			failed = true
			_ = say(a.stderr, "wsd kill: %s: %v", id, err)
		}
	}
	if failed {
		return &exitError{exitFailure, nil}
	}
	return nil
}

func (p *psEntry) kill(ctx context.Context, c *client.Client, signal string) error {
	if !p.Durable {
		return c.SignalProcess(ctx, p.SessionID, p.ProcessID, signal)
	}
	if number, err := strconv.Atoi(signal); err == nil {
		if name := unix.SignalName(unix.Signal(number)); name != "" {
			signal = name
		}
	}
	return c.KillExec(ctx, p.ProcessID, signal)
}

// findProcess finds the one process that id means: by its whole ID or its pid, or else
// by the beginning of its ID.
func findProcess(list []psEntry, id string) (*psEntry, error) {
	var exact, prefix []*psEntry
	for i := range list {
		p := &list[i]
		if p.ProcessID == id || p.PID != nil && strconv.Itoa(*p.PID) == id {
			exact = append(exact, p)
		}
		if strings.HasPrefix(p.ProcessID, id) {
			prefix = append(prefix, p)
		}
	}
	switch {
	case len(exact) == 1:
		return exact[0], nil
	case len(exact) > 1:
		return nil, fmt.Errorf("is the ID of %d processes of different sessions; write the pid instead", len(exact))
	case len(prefix) == 1:
		return prefix[0], nil
	case len(prefix) > 1:
		return nil, fmt.Errorf("is the beginning of %d IDs; write more of it", len(prefix))
	}
	return nil, errors.New("no such process; 'wsd ps' lists them")
}
