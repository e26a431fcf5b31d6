package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
)

func newCpCmd(a *app) *cobra.Command {
	var connect connectFlags
	var quiet, recursive bool
	var allow allowFlags
	cmd := &cobra.Command{
		Use:   "cp [flags] SOURCE... DEST",
		Short: "Copy files and trees to and from the server",
		Long: `Copies files and directories, with all below them, to or from the server, or
within it. A path that begins with a colon is one at the server, relative to the
server's directory: :src is its src, :/etc its /etc, : its directory. A local
path that begins with a colon is written ./:name.

As with cp, a DEST that is a directory gets the sources into it, and several
sources need one. Permissions and links are kept; links are copied, not
followed, unless named as a source or, here, as DEST; a link below a DEST here is
replaced by what the server has under its name. Each file is put in place whole,
when it has arrived. On a terminal the progress is shown.

` + allowHelp + ` A file that is itself a SOURCE may have
any name.

` + connectHelp + `

Exit status: 0, also when something was withheld; 1 when something could not be
copied: the rest is copied all the same, and each failure is named.`,
		Example: "  wsd cp main.go :src/main.go\n  wsd cp :build/report.html :build/app .\n  wsd cp site :/srv/www/",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("write 'wsd cp FILE :FILE' to copy to the server, 'wsd cp :FILE FILE' to copy from it",
					"cp wants a source and a destination")
			}
			_, err := parseCopy(args)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := parseCopy(args)
			if err != nil {
				return err
			}
			return connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return job.run(ctx, a, c, allow, !quiet && isTerminal(a.stderr))
			})
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy directories, as is done anyway")
	allow.add(cmd.Flags())
	connect.add(cmd.Flags())
	return cmd
}

// copyJob is what a command line of cp asks for.
type copyJob struct {
	sources      []string // without colons
	dest         string   // without colon
	destIsDir    bool     // it was written with a slash at its end
	sourceRemote bool
	destRemote   bool
}

// remotePath takes the colon from a path at the server.
func remotePath(arg string) (string, bool) {
	name, remote := strings.CutPrefix(arg, ":")
	if remote && name == "" {
		name = "."
	}
	return name, remote
}

func parseCopy(args []string) (*copyJob, error) {
	job := new(copyJob)
	last := len(args) - 1
	job.dest, job.destRemote = remotePath(args[last])
	job.destIsDir = strings.HasSuffix(job.dest, "/")
	for i, arg := range args[:last] {
		name, remote := remotePath(arg)
		if name == "" {
			return nil, usagef("write a path", "empty source")
		}
		if i > 0 && remote != job.sourceRemote {
			return nil, usagef("run 'wsd cp' once for each side", "sources on both sides: %s and %s", args[0], arg)
		}
		job.sourceRemote = remote
		job.sources = append(job.sources, name)
	}
	if job.dest == "" {
		return nil, usagef("write a path", "empty destination")
	}
	if !job.sourceRemote && !job.destRemote {
		return nil, usagef(fmt.Sprintf("a path at the server begins with a colon: 'wsd cp %s :%s'", args[0], args[last]),
			"neither side is at the server")
	}
	return job, nil
}

// run copies all sources and reports every failure.
func (j *copyJob) run(ctx context.Context, a *app, c *client.Client, allow allowFlags, progress bool) error {
	t := newTransfer(a, c, allow, progress)
	defer t.close()
	into, err := j.intoDirectory(ctx, c)
	if err != nil {
		return err
	}
	for _, source := range j.sources {
		dest, base := j.dest, ""
		if into {
			base = baseOf(source)
			if j.destRemote {
				dest = path.Join(dest, base)
			}
		}
		switch {
		case j.sourceRemote && j.destRemote:
			t.failed(source, c.Copy(ctx, source, dest))
		case j.sourceRemote:
			t.planDownload(ctx, source, dest, base)
		default:
			t.planUpload(source, dest)
		}
	}
	t.run(ctx)
	if t.failures > 0 {
		return &exitError{exitFailure, nil}
	}
	return ctx.Err()
}

// baseOf is the name that a source gets in a directory; that of "." is of the
// directory it stands for where that is known, and else its content is meant.
func baseOf(source string) string {
	base := path.Base(filepath.ToSlash(source))
	if base == ".." || base == "/" {
		return "."
	}
	return base
}

// intoDirectory reports whether the sources go into the destination.
func (j *copyJob) intoDirectory(ctx context.Context, c *client.Client) (bool, error) {
	isDir := false
	var err error
	if j.destRemote {
		var info *client.FileInfo
		if info, err = c.Stat(ctx, j.dest); err == nil {
			isDir = info.IsDir()
		}
	} else {
		var info os.FileInfo
		if info, err = os.Stat(j.dest); err == nil {
			isDir = info.IsDir()
		}
	}
	switch {
	case isDir:
		return true, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return false, err
	case len(j.sources) > 1:
		return false, fmt.Errorf("%s is not a directory, and there are %d sources", j.named(), len(j.sources))
	case j.destIsDir:
		return false, fmt.Errorf("%s is not a directory", j.named())
	}
	return false, nil
}

// named is the destination as the user writes it.
func (j *copyJob) named() string {
	if j.destRemote {
		return ":" + j.dest
	}
	return j.dest
}
