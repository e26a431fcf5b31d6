package main

import (
	"context"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

// checkDetached refuses the flags that mean nothing for a durable run.
func checkDetached(cmd *cobra.Command) error {
	for _, name := range []string{"tty", "json", "sync", "sandbox", "limit"} {
		if cmd.Flags().Changed(name) {
			return usagef("leave out --"+name, "--detach and --%s do not go together", name)
		}
	}
	return nil
}

// detach starts a command as a durable run that nobody follows, and prints its ID.
func (f *runFlags) detach(ctx context.Context, a *app, argv []string) error {
	c, err := f.connect.dialWorkspace(ctx, a, client.Options{ClientName: "wsd"})
	if err != nil {
		return transportError(err)
	}
	defer c.Close()
	cmd, err := f.durable(ctx, c, argv)
	if err == nil {
		err = startDetached(ctx, a, c, cmd)
	}
	if err != nil {
		return &exitError{exitTransport, explainRun(err)}
	}
	return nil
}

func startDetached(ctx context.Context, a *app, c *client.Client, cmd client.DurableCommand) error {
	run, err := c.Exec(ctx, cmd)
	if err != nil {
		return err
	}
	run.Close()
	return say(a.stdout, "%s", run.ID())
}

// durable is what the flags say of a durable run.
func (f *runFlags) durable(ctx context.Context, c *client.Client, argv []string) (client.DurableCommand, error) {
	cmd := client.DurableCommand{Line: shellLine(argv), Dir: f.cwd, Timeout: client.NoTimeout}
	if f.timeout > 0 {
		cmd.Timeout = f.timeout
	}
	info, err := c.Environment(ctx)
	if err != nil {
		return cmd, err
	}
	if cmd.Dir != "" && !path.IsAbs(cmd.Dir) && info.WorkspaceMount != "" {
		cmd.Dir = path.Join(info.WorkspaceMount, cmd.Dir)
	}
	cmd.Env = f.environment()
	return cmd, nil
}

// shellLine has a shell run argv as it is, in its own place.
func shellLine(argv []string) string {
	words := []string{"exec"}
	for _, arg := range argv {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}
