package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// lostFlags bound the versions that are kept.
type lostFlags struct {
	age   time.Duration
	bytes byteSize
}

// byteSize is a flag: a number of bytes with K, M, G or T for powers of 1,024.
type byteSize int64

// Type implements pflag.Value.
func (*byteSize) Type() string { return "size" }

// String implements pflag.Value.
func (b *byteSize) String() string {
	n, unit := int64(*b), ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	n, err := parseSize(text)
	*b = byteSize(n)
	return err
}

// The flags of lostFlags.
const (
	flagLostAge   = "lost-max-age"
	flagLostBytes = "lost-max-bytes"
)

func (f *lostFlags) add(flags *pflag.FlagSet) {
	f.bytes = lost.DefaultBytes
	durationFlag(flags, &f.age, flagLostAge, lost.DefaultAge, "forget lost versions of files after a `DURATION`; 0s keeps them\nfor ever")
	flags.Var(&f.bytes, flagLostBytes, "forget the oldest lost versions when all have more than `SIZE`, such as\n512M or 2G, but none within an hour; 0 keeps them all")
}

func (f *lostFlags) check() error {
	if f.age < 0 {
		return usagef("write --"+flagLostAge+" 30d", "invalid value %v for --%s: it must not be negative", f.age, flagLostAge)
	}
	return nil
}

// bounds are those of package lost, in which 0 stands for the default.
func (f *lostFlags) bounds() lost.Bounds {
	b := lost.Bounds{Age: f.age, Bytes: int64(f.bytes)}
	if b.Age == 0 {
		b.Age = -1
	}
	if b.Bytes == 0 {
		b.Bytes = -1
	}
	return b
}

// syncLost is a "lost" of --json.
type syncLost struct {
	Type    string      `json:"type"`
	Version int64       `json:"version"`
	At      string      `json:"at"`
	Why     string      `json:"why"` // "overtaken", "conflict", "restored"
	Path    string      `json:"path"`
	File    string      `json:"file,omitempty"` // on disk
	State   string      `json:"state"`
	Entry   syncVersion `json:"entry"`
}

func newSyncLostCmd(a *app) *cobra.Command {
	var state string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lost [flags] [LOCAL]",
		Short: "List the versions of files that synchronising has replaced",
		Long: `Lists the versions of files and links at LOCAL, a directory or a file, and below it
(default: the current directory) that nobody had seen when something else came to their place, or that lost a conflict:
the number, when, why, the size and the path, the newest last. 'wsd sync restore'
brings one back. They are kept for --` + flagLostAge + ` and up to --` + flagLostBytes + ` of
'wsd sync', 'wsd exec --sync' and 'wsd serve'.

With --state it lists those of a file that 'wsd sync --state' or 'wsd serve --store'
named: all of them, or with LOCAL too those at LOCAL and below it. A state that a
'wsd sync --watch' has open is read by that; while another 'wsd sync' or a server has it open it is not.

Exit status: 0; 1 on failure; 2 for a command line that wsd does not understand.`,
		Example: "  wsd sync lost ~/project\n  wsd sync lost --state there.db --json\n  wsd sync lost --state s.db ~/project/src",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("write 'wsd sync lost LOCAL'", "lost wants one directory, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			states, below, err := []string{state}, "", error(nil)
			if state == "" || len(args) > 0 {
				if states, below, err = listedPath(cmd.Context(), state, append(args, ".")[0]); err != nil {
					return err
				}
			}
			return printLost(cmd.Context(), a, states, below, asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	textFlag(f, &state, "state", "list those of the state or store `FILE`")
	return cmd
}

// listedPath finds the file that a path of the command line means, and its states if --state names none.
func listedPath(ctx context.Context, state, typed string) (states []string, file string, err error) {
	places, err := keptPlaces(ctx, state, typed)
	switch {
	case err != nil:
		return nil, "", err
	case len(places) > 0 && state == "":
		states, err = keptAt(places[0].dir)
		return states, places[0].file(), err
	case len(places) > 0:
		return []string{state}, places[0].file(), nil
	case state == "":
		_, err = statesOf(typed)
		return nil, "", err
	}
	if file, err = filepath.Abs(typed); err != nil {
		return nil, "", err
	}
	dir, err := dirOfState(ctx, state)
	if err == nil && dir != "" {
		err = usagef("leave one of them out", "the state %s is of %s, and %s is not in that", state, dir, file)
	}
	return []string{state}, file, err
}

// printLost prints the versions of a path and of all below it. The path "" stands for all versions.
func printLost(ctx context.Context, a *app, states []string, below string, asJSON bool) error {
	var all []*keptVersion
	for _, file := range states {
		list, err := keptIn(ctx, a, file, below, asJSON)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(a, b *keptVersion) int { return a.At.Compare(b.At) })
	if asJSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		for _, v := range all {
			if err := enc.Encode(lostObject(v)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		if below != "" {
			return say(a.stdout, "no versions are kept of %s", safe(below))
		}
		return say(a.stdout, "no versions are kept")
	}
	return lostTable(a.stdout, all, len(states) > 1)
}

func lostObject(v *keptVersion) syncLost {
	out := syncLost{Type: "lost", Version: v.ID, At: v.At.UTC().Format(time.RFC3339Nano), Why: string(v.Why), Path: v.name, State: v.store, Entry: entryObject(&v.Entry)}
	if v.dir != "" {
		out.File = rawname.Encode(v.file())
	}
	return out
}

// entryObject is an entry of a tree in JSON.
func entryObject(e *tree.Entry) syncVersion {
	out := syncVersion{
		Kind: e.Kind.String(), Mode: fmt.Sprintf("%04o", e.Mode), MTime: e.MTime.UTC().Format(time.RFC3339Nano),
		Size: e.Size, Target: e.Target,
	}
	for _, p := range e.Parts {
		out.Chunks = append(out.Chunks, p.Hash.String())
	}
	if e.Kind == tree.KindFile {
		out.Hash = tree.ManifestOf(e.Parts).String()
	}
	return out
}

// lostTable prints versions for a person. With states each says which one keeps it.
func lostTable(w io.Writer, all []*keptVersion, states bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "VERSION\tLOST\tWHY\tSIZE\tPATH"
	if states {
		header = "STATE\t" + header
	}
	fmt.Fprintln(t, header)
	for _, v := range all {
		if states {
			fmt.Fprintf(t, "%s\t", safe(v.store))
		}
		size := byteCount(v.Entry.Size)
		if v.Entry.Kind == tree.KindSymlink {
			size = "link"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", v.ID, v.At.Local().Format(time.DateTime), safe(string(v.Why)), size, safe(rawname.Show(v.name)))
	}
	return t.Flush()
}
