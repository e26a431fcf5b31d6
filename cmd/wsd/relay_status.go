package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

func newRelayStatusCmd(a *app) *cobra.Command {
	var state string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes and environments of a relay",
		Long: `Shows the nodes of a relay, and the environments that executors have registered
for, as its state knows them: figures are at most some seconds old.

Exit status: 0; 1 on failure.`,
		Example: "  wsd relay status\n  wsd relay status --json --state nats://127.0.0.1:4222",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withState(cmd.Context(), state, false, func(ctx context.Context, s rendezvous.State) error {
				status, err := rendezvous.Status(ctx, s)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, status)
				}
				return printRelayStatus(a.stdout, status, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	addStateFlag(cmd.Flags(), &state)
	return cmd
}

func printRelayStatus(w io.Writer, s *rendezvous.RelayStatus, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tSTATE\tUP\tEXECUTORS\tHARNESSES\tSTREAMS\tBYTES\tURL")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		state := "alive"
		switch {
		case !n.Alive:
			state = "dead"
		case n.Draining:
			state = "draining"
		}
		row(t, n.ID, state, now.Sub(n.Started).Round(time.Second),
			n.Executors, n.Harnesses, n.Streams, n.BytesToExecutors+n.BytesFromExecutors, n.URL)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(t, "\nENVIRONMENT\tSTATE\tSTREAMS\tNODE\tFROM\tFINGERPRINT")
	for i := range s.Environments {
		e := &s.Environments[i]
		state := "offline"
		if e.Attached {
			state = "attached " + now.Sub(e.Since).Round(time.Second).String()
		}
		row(t, e.ID, state, e.Streams, e.Node, e.Remote, e.Fingerprint)
	}
	return t.Flush()
}
