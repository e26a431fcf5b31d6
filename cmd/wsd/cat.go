package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

func newCatCmd(a *app) *cobra.Command {
	var connect connectFlags
	cmd := &cobra.Command{
		Use:   "cat [flags] PATH...",
		Short: "Print files of the server",
		Long: `Prints the content of files of the server, one after the other. Paths are relative
to the server's directory.

` + connectHelp + `

Exit status: 0; 1 when a file could not be read.`,
		Example: "  wsd cat go.mod\n  wsd cat /var/log/syslog | grep error",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("write 'wsd cat PATH'", "no file to print")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return catAll(ctx, a, c, args)
			})
		},
	}
	connect.add(cmd.Flags())
	return cmd
}

func catAll(ctx context.Context, a *app, c *client.Client, paths []string) error {
	failed := false
	for _, name := range paths {
		err := catFile(ctx, a.stdout, c, name)
		if unwritable, ok := errors.AsType[*outputError](err); ok {
			return unwritable.err
		}
		if errors.Is(err, client.ErrTransportClosed) {
			return err
		}
		if err != nil {
			failed = true
			_ = say(a.stderr, "wsd cat: %v", err)
		}
	}
	if failed {
		return &exitError{exitFailure, nil}
	}
	return nil
}

// outputError is a failure to write our output, for which no file is to blame.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

type outputWriter struct{ w io.Writer }

func (o outputWriter) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		err = &outputError{fmt.Errorf("print: %w", err)}
	}
	return n, err
}

func catFile(ctx context.Context, w io.Writer, c *client.Client, name string) error {
	f, err := c.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteTo(outputWriter{w})
	return err
}
