package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker (make build); empty when built another way.
var (
	buildVersion string // such as "0.2.0"
	buildCommit  string
	buildDate    string // RFC 3339
	buildDirty   string // "true" when the tree had changes that are not in the commit
)

// buildInfo is what this program was built from.
type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // empty when unknown, as the date
	Date     string `json:"date"`
	Dirty    bool   `json:"dirty"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // GOOS/GOARCH
	CGO      bool   `json:"cgo"`
}

// readBuildInfo takes what the linker was told and fills up with what the Go
// toolchain recorded.
func readBuildInfo() buildInfo {
	info := buildInfo{
		Version: buildVersion, Commit: buildCommit, Date: buildDate, Dirty: buildDirty == "true",
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if recorded, ok := debug.ReadBuildInfo(); ok {
		info.fill(recorded)
	}
	if info.Version == "" {
		info.Version = "devel"
	}
	return info
}

func (b *buildInfo) fill(recorded *debug.BuildInfo) {
	if b.Version == "" && recorded.Main.Version != "(devel)" {
		b.Version = recorded.Main.Version
	}
	linked := b.Commit != ""
	for _, s := range recorded.Settings {
		switch {
		case s.Key == "CGO_ENABLED":
			b.CGO = s.Value == "1"
		case linked: // the linker's word on the tree counts
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.time":
			b.Date = s.Value
		case s.Key == "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
}

// line is the information in one line.
func (b buildInfo) line() string {
	from := "an unknown commit"
	if b.Commit != "" {
		from = b.Commit[:min(len(b.Commit), 12)]
	}
	if b.Dirty {
		from += " with local changes"
	}
	if b.Date != "" {
		from += " of " + b.Date
	}
	return fmt.Sprintf("wsd %s, built from %s with %s for %s", b.Version, from, b.Go, b.Platform)
}

func newVersionCmd(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this wsd was built from",
		Long: `Prints the version, the commit it was built from, the Go toolchain and the
platform, in one line or, with --json, as an object with the members version,
commit, date, dirty, go, platform and cgo.

Exit status: 0.`,
		Example: "  wsd version\n  wsd version --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return writeJSON(a.stdout, readBuildInfo())
			}
			_, err := io.WriteString(a.stdout, readBuildInfo().line()+"\n")
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
