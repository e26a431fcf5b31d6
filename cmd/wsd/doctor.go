package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/process/sandbox"
)

// doctorReport is what wsd doctor finds.
type doctorReport struct {
	OK         bool             `json:"ok"` // nothing that is needed is missing
	Build      buildInfo        `json:"build"`
	Checks     []check          `json:"checks"`
	Sandbox    sandbox.Report   `json:"sandbox"`
	Limits     limitsReport     `json:"limits"`
	Servers    []runningServer  `json:"servers"`
	Connection *connectionCheck `json:"connection,omitempty"` // with --connect or $WSD_URL
}

// checkStatus says how a check went.
type checkStatus string

const (
	statusOK      checkStatus = "ok"
	statusLimited checkStatus = "limited" // works, with less than it might
	statusMissing checkStatus = "missing" // something needed is not there
)

// check is one thing that doctor looked at.
type check struct {
	Name   string      `json:"name"`
	Status checkStatus `json:"status"`
	Detail string      `json:"detail"`
	Advice string      `json:"advice,omitempty"` // what to do, unless ok
}

func newDoctorCmd(a *app) *cobra.Command {
	var asJSON bool
	var connect connectFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, and the way to a server",
		Long: `Prints what wsd can do on this machine: what of the sandbox the kernel enforces,
the limits that long-running servers meet, and the servers of yours that run.
With --connect or $WSD_URL also how fast that server answers, and, over a relay,
each hop on the way: where the first FAIL stands, the way ends.

Each line says ok, limited (it works, with less than it might) or missing.

Exit status: 0, or 1 when something that is needed is missing or that server does
not answer.`,
		Example: `  wsd doctor
  wsd doctor --connect ws://127.0.0.1:45678
  wsd doctor --connect relay://relay.example/lab
  wsd doctor --json | jq .sandbox`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := examine()
			if connect.url == "" {
				connect.url = os.Getenv(envURL)
			}
			if connect.url != "" {
				report.Connection = examineConnection(cmd.Context(), a, &connect)
				report.OK = report.OK && report.Connection.Error == ""
			}
			return a.printDoctor(report, asJSON)
		},
	}
	connect.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// examine looks at this machine.
func examine() doctorReport {
	report := doctorReport{Build: readBuildInfo(), Checks: machineChecks(), Sandbox: sandbox.Probe(), Limits: examineLimits(), OK: true, Servers: []runningServer{}}
	if dir, err := userRuntimeDir(); err == nil {
		if servers, err := dir.servers(); err == nil && servers != nil {
			report.Servers = servers
		}
	}
	for _, c := range report.Checks {
		if c.Status == statusMissing {
			report.OK = false
		}
	}
	return report
}

func (a *app) printDoctor(report doctorReport, asJSON bool) error {
	var err error
	if asJSON {
		err = writeJSON(a.stdout, report)
	} else {
		_, err = io.WriteString(a.stdout, report.text())
	}
	if err == nil && !report.OK {
		err = &exitError{code: exitFailure}
	}
	return err
}

// text is the report for a person.
func (r doctorReport) text() string {
	var b strings.Builder
	b.WriteString(r.Build.line() + "\n\n")
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		row(table, c.Status, c.Name, c.Detail)
	}
	_ = table.Flush() // a Builder takes everything
	for _, c := range r.Checks {
		if c.Advice != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", c.Name, safeError(c.Advice))
		}
	}
	b.WriteString("\nsandbox\n")
	b.WriteString(indent(sandboxText(r.Sandbox)))
	b.WriteString("\nlimits of commands\n")
	b.WriteString(indent(r.Limits.text()))
	b.WriteString("\nrunning servers\n")
	if len(r.Servers) == 0 {
		b.WriteString("  none; 'wsd serve' starts one\n")
	}
	for _, s := range r.Servers {
		fmt.Fprintf(&b, "  %s  pid %d, serves %s since %s\n", safe(s.URL), s.PID, safe(s.Cwd), s.StartedAt.Local().Format(time.DateTime))
	}
	if r.Connection != nil {
		b.WriteString("\nconnection\n" + indent(r.Connection.text()))
	}
	return b.String()
}

// indent moves the lines of s to the right.
func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("  " + line)
	}
	if s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteString("\n")
	}
	return b.String()
}
