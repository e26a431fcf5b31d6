package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

type lsFlags struct {
	connect           connectFlags
	long, all, asJSON bool
	directory         bool
}

func newLsCmd(a *app) *cobra.Command {
	var flags lsFlags
	cmd := &cobra.Command{
		Use:   "ls [flags] [PATH]...",
		Short: "List files and directories of the server",
		Long: `Lists directories and files of the server, sorted by name; by default its own
directory. Paths are relative to that.

` + connectHelp + `

With --json each entry is an object with the members name, path, type ("file",
"directory", "symlink", "other"), size, mode (such as "0644"), modified and, for
links, target.

Exit status: 0; 1 when a path could not be listed.`,
		Example: "  wsd ls\n  wsd ls -l src\n  wsd ls --json /etc | jq -r '.[].path'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return flags.connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return flags.run(ctx, a, c, args)
			})
		},
	}
	cmd.Flags().BoolVarP(&flags.long, "long", "l", false, "show permissions, size and time")
	cmd.Flags().BoolVarP(&flags.all, "all", "a", false, "list names that begin with a dot too")
	cmd.Flags().BoolVarP(&flags.directory, "directory", "d", false, "list directories themselves, not what is in them")
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print a JSON array")
	flags.connect.add(cmd.Flags())
	return cmd
}

// lsEntry is an entry in the output of --json.
type lsEntry struct {
	Name     string    `json:"name"`
	Path     string    `json:"path"`
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
	Target   string    `json:"target,omitempty"`

	mode iofs.FileMode
}

func (f *lsFlags) run(ctx context.Context, a *app, c *client.Client, paths []string) error {
	all := []lsEntry{}
	failed := false
	for i, name := range paths {
		entries, isDir, err := f.list(ctx, c, name)
		if errors.Is(err, client.ErrTransportClosed) {
			return err
		}
		if err != nil {
			failed = true
			_ = say(a.stderr, "wsd ls: %v", err)
			continue
		}
		if f.asJSON {
			all = append(all, entries...)
			continue
		}
		if isDir && len(paths) > 1 {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprintf(a.stdout, "%s:\n", safe(name))
		}
		if err := f.print(a.stdout, entries); err != nil {
			return err
		}
	}
	if f.asJSON {
		if err := writeJSON(a.stdout, all); err != nil {
			return err
		}
	}
	if failed {
		return &exitError{exitFailure, nil}
	}
	return nil
}

// list returns what a path holds, or the path itself when it is no directory.
func (f *lsFlags) list(ctx context.Context, c *client.Client, name string) (entries []lsEntry, isDir bool, err error) {
	info, err := c.Lstat(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if info.Mode()&iofs.ModeSymlink != 0 && !f.directory && !f.long {
		if target, err := c.Stat(ctx, name); err == nil {
			info = target
		}
	}
	if !info.IsDir() || f.directory {
		entry := f.entry(ctx, c, info)
		entry.Name = name
		return []lsEntry{entry}, false, nil
	}
	infos, err := c.ReadDir(ctx, name)
	if err != nil {
		return nil, true, err
	}
	for _, info := range infos {
		if f.all || !strings.HasPrefix(info.Name(), ".") {
			entries = append(entries, f.entry(ctx, c, info))
		}
	}
	return entries, true, nil
}

func (f *lsFlags) entry(ctx context.Context, c *client.Client, info *client.FileInfo) lsEntry {
	if (f.long || f.asJSON) && info.ModTime().UnixMilli() == 0 { // an older server, which lists kinds only
		if full, err := c.Lstat(ctx, info.Path()); err == nil {
			info = full
		}
	}
	out := lsEntry{
		Name: info.Name(), Path: info.Path(), Type: typeOf(info.Mode()), Size: info.Size(), mode: info.Mode(),
		Mode: fmt.Sprintf("%04o", permissionBits(info.Mode())), Modified: info.ModTime().UTC(),
	}
	if out.Type == "symlink" && (f.long || f.asJSON) {
		out.Target, _ = c.ReadLink(ctx, info.Path()) // it may have gone, and older servers do not tell
	}
	return out
}

func typeOf(mode iofs.FileMode) string {
	switch {
	case mode&iofs.ModeSymlink != 0:
		return "symlink"
	case mode.IsDir():
		return "directory"
	case mode.IsRegular():
		return "file"
	}
	return "other"
}

// permissionBits are the bits of chmod(2).
func permissionBits(mode iofs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for flag, bit := range map[iofs.FileMode]uint32{iofs.ModeSetuid: 0o4000, iofs.ModeSetgid: 0o2000, iofs.ModeSticky: 0o1000} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// modeText writes a mode as ls(1) does; what the server calls neither a file, a
// directory nor a link is a question mark.
func modeText(mode iofs.FileMode) string {
	text := []byte(mode.Perm().String())
	switch typeOf(mode) {
	case "directory":
		text[0] = 'd'
	case "symlink":
		text[0] = 'l'
	case "other":
		text[0] = '?'
	}
	for _, special := range []struct {
		bit       iofs.FileMode
		at        int
		with, alt byte // where it may be executed, and where it may not
	}{{iofs.ModeSetuid, 3, 's', 'S'}, {iofs.ModeSetgid, 6, 's', 'S'}, {iofs.ModeSticky, 9, 't', 'T'}} {
		switch {
		case mode&special.bit == 0:
		case text[special.at] == 'x':
			text[special.at] = special.with
		default:
			text[special.at] = special.alt
		}
	}
	return string(text)
}

func (f *lsFlags) print(w io.Writer, entries []lsEntry) error {
	if !f.long {
		for _, entry := range entries {
			if _, err := fmt.Fprintln(w, safe(entry.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	width := 1
	for _, entry := range entries {
		width = max(width, len(strconv.FormatInt(entry.Size, 10)))
	}
	for _, entry := range entries {
		name := safe(entry.Name)
		if entry.Target != "" {
			name += " -> " + safe(entry.Target)
		}
		_, err := fmt.Fprintf(w, "%s  %*d  %s  %s\n", modeText(entry.mode), width, entry.Size, entry.Modified.Local().Format("2006-01-02 15:04"), name)
		if err != nil {
			return err
		}
	}
	return nil
}

// relativeTo writes a path of the server as the user would, who named the directory
// root, which is absolute at abs.
func relativeTo(root, abs, found string) string {
	if found == abs {
		return root
	}
	rest, ok := strings.CutPrefix(found, strings.TrimSuffix(abs, "/")+"/")
	switch {
	case !ok:
		return found
	case root == ".":
		return rest
	}
	return path.Join(root, rest)
}
