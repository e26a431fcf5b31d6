package main

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/trust"
)

func newFingerprintCmd(a *app) *cobra.Command {
	var identity, environment string
	var ofClient, asJSON bool
	cmd := &cobra.Command{
		Use:   "fingerprint",
		Short: "Print what this machine is known by over a relay",
		Long: `Prints the fingerprint of the keys that this machine has: as the executor of an
environment, for clients to compare, or as a client (--client), for the file that
'wsd serve --remote' takes as --authorized-keys. Keys are made if there are none
yet.

Exit status: 0; 1 on failure; 2 a command line that wsd does not understand.`,
		Example: `  wsd fingerprint --environment-id lab
  wsd fingerprint --client >> authorized_keys`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := identity, error(nil)
			switch {
			case btoi(identity != "")+btoi(environment != "")+btoi(ofClient) != 1:
				return usagef("write --environment-id lab, or --client", "say which keys: --environment-id ID, --client or --identity FILE")
			case ofClient:
				path, err = clientIdentityPath()
			case environment != "":
				if err := registry.CheckEnvironmentID(environment); err != nil {
					return usagef(helpHint(cmd), "invalid value for --environment-id: %w", err)
				}
				path, err = identityPath(environment)
			}
			if err != nil {
				return err
			}
			read := trust.Identity
			if identity != "" {
				read = trust.LoadIdentity // a name that was mistyped must not make a file
			}
			id, err := read(path)
			if errors.Is(err, iofs.ErrNotExist) {
				return withHint(err, "'wsd serve --remote URL --identity "+path+"' makes it")
			}
			if err != nil {
				return err
			}
			print := id.Public().Fingerprint().String()
			if asJSON {
				return writeJSON(a.stdout, struct {
					Fingerprint string `json:"fingerprint"`
					Identity    string `json:"identity"`
				}{print, path})
			}
			_, err = fmt.Fprintln(a.stdout, print)
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&environment, "environment-id", "", "the keys of this machine as the executor of `ID`")
	f.StringVar(&identity, "identity", "", "the keys in `FILE`")
	f.BoolVar(&ofClient, "client", false, "the keys of this person as a client")
	f.BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
