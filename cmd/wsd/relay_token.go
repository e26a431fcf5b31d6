package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

func newRelayTokenCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of a relay",
		Long: `Makes, lists and revokes the tokens of a relay, in its state: on the machine where
the relay runs, or wherever its NATS is reached. The relay need not be stopped.`,
		Example: "  wsd relay token create --role executor --environment lab\n  wsd relay token list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCmd(a), newTokenListCmd(a), newTokenRevokeCmd())
	return cmd
}

// withState runs f with the relay's state, which a relay need not have made yet if fresh.
func withState(ctx context.Context, value string, fresh bool, f func(context.Context, rendezvous.State) error) error {
	if value == memoryState {
		return usagef("a relay with --state memory: prints its tokens when it starts", "the state of a relay that is in its memory is reached by nobody else")
	}
	place, err := parseState(value)
	if err != nil {
		return err
	}
	if _, missing := os.Stat(place.File); place.File != "" && !fresh && errors.Is(missing, iofs.ErrNotExist) {
		return withHint(fmt.Errorf("no relay keeps its state in %s", place.File),
			"run it as the user that 'wsd relay' runs as, on that machine, and give the same --state if that has one")
	}
	state, err := place.Open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, state), state.Close())
}

func newTokenCreateCmd(a *app) *cobra.Command {
	var state string
	var token rendezvous.Token
	var role string
	var expires time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token",
		Long: `Makes a token and prints it, and nothing else, on standard output. It is not kept
and cannot be printed again.

A token of the role executor is for 'wsd serve --remote', one of the role harness
for 'wsd exec --connect relay://...' and the other client commands.

Exit status: 0; 1 on failure; 2 a command line that wsd does not understand.`,
		Example: `  wsd relay token create --role executor --environment lab > executor.token
  wsd relay token create --role harness --environment lab --expires 30d --max-streams 16`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token.Role = rendezvous.Role(role)
			switch {
			case role == "":
				return usagef(helpHint(cmd), "--role is missing: executor or harness")
			case token.Role != rendezvous.RoleExecutor && token.Role != rendezvous.RoleHarness:
				return usagef(helpHint(cmd), "invalid value %q for --role: want executor or harness", role)
			case token.Environment == "":
				return usagef("--environment '*' is for all", "--environment is missing")
			case token.Quota.Streams != 0 && token.Role != rendezvous.RoleHarness:
				return usagef("leave it out", "--max-streams is for --role harness: an executor has one connection for each environment")
			case token.Quota.Streams < 0:
				return usagef(helpHint(cmd), "invalid value %d for --max-streams: it must not be negative", token.Quota.Streams)
			case token.Quota.BytesPerSecond < 0 || token.Quota.BytesPerSecond > 0 && token.Quota.BytesPerSecond < rendezvous.MaxFrame:
				return usagef(helpHint(cmd), "invalid value %d for --max-bytes-per-second: a frame has up to %d", token.Quota.BytesPerSecond, rendezvous.MaxFrame)
			case expires < 0:
				return usagef(helpHint(cmd), "invalid value %v for --expires: it must not be negative", expires)
			}
			if token.Environment != rendezvous.AnyEnvironment {
				if err := registry.CheckEnvironmentID(token.Environment); err != nil {
					return usagef("--environment '*' is for all", "invalid value for --environment: %w", err)
				}
			}
			if expires > 0 {
				token.Expires = time.Now().Add(expires).UTC().Truncate(time.Second)
			}
			return withState(cmd.Context(), state, true, func(ctx context.Context, s rendezvous.State) error {
				made, secret, err := rendezvous.Tokens{State: s}.Create(ctx, token)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, struct {
						rendezvous.Token
						Secret string `json:"secret"`
					}{made, secret})
				}
				_, err = fmt.Fprintln(a.stdout, secret)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&role, "role", "", "what the holder may be: `ROLE` is executor or harness")
	f.StringVar(&token.Environment, "environment", "", "the environment that it is for; `ID` is '*' for all")
	durationFlag(f, &expires, "expires", 0, "it counts for a `DURATION` such as 30d (default for ever)")
	f.IntVar(&token.Quota.Streams, "max-streams", 0, "a harness's may have `COUNT` streams at once (default no bound)")
	f.IntVar(&token.Quota.BytesPerSecond, "max-bytes-per-second", 0, "`BYTES` may pass a second, both ways together (default no bound)")
	f.StringVar(&token.Note, "note", "", "keep a `TEXT` with it, such as whose it is")
	f.BoolVar(&asJSON, "json", false, "print a JSON object, with the token as \"secret\"")
	addStateFlag(f, &state)
	return cmd
}

func newTokenListCmd(a *app) *cobra.Command {
	var state string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens",
		Long:    "Lists the tokens of a relay. The tokens themselves are not kept.\n\nExit status: 0; 1 on failure.",
		Example: "  wsd relay token list\n  wsd relay token list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withState(cmd.Context(), state, false, func(ctx context.Context, s rendezvous.State) error {
				tokens, err := rendezvous.Tokens{State: s}.List(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.stdout, tokens)
				}
				return printTokens(a.stdout, tokens, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	addStateFlag(cmd.Flags(), &state)
	return cmd
}

func printTokens(w io.Writer, tokens []rendezvous.Token, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tROLE\tENVIRONMENT\tCREATED\tEXPIRES\tSTREAMS\tBYTES/S\tNOTE")
	for i := range tokens {
		token := &tokens[i]
		expires := "never"
		if !token.Expires.IsZero() {
			expires = token.Expires.Format(time.DateTime)
			if !now.Before(token.Expires) {
				expires += " (expired)"
			}
		}
		row(t, token.ID, token.Role, token.Environment, token.Created.Format(time.DateTime),
			expires, bound(token.Quota.Streams), bound(token.Quota.BytesPerSecond), token.Note)
	}
	return t.Flush()
}

// bound is how a quota is shown.
func bound(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func newTokenRevokeCmd() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens",
		Long: `Revokes tokens by their ids, which 'wsd relay token list' prints. A running relay
closes their connections within seconds.

Exit status: 0; 1 on failure, also if one of them is not known.`,
		Example: "  wsd relay token revoke 1f0c52a9be77",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("'wsd relay token list' prints the ids", "which token?")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			return withState(cmd.Context(), state, false, func(ctx context.Context, s rendezvous.State) error {
				var errs []error
				for _, id := range ids {
					errs = append(errs, rendezvous.Tokens{State: s}.Revoke(ctx, id))
				}
				return errors.Join(errs...)
			})
		},
	}
	addStateFlag(cmd.Flags(), &state)
	return cmd
}
