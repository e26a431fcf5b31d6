package main

import (
	"strings"
	"text/tabwriter"

	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/protocol"
)

// limitsReport is how a server would enforce limits that is started as this program is.
type limitsReport struct {
	Limits []protocol.LimitReport `json:"limits"`
	Says   string                 `json:"says"`
}

// examineLimits tries what a server does.
func examineLimits() limitsReport {
	limiter := limit.New(nil)
	defer limiter.Close()
	return limitsReport{
		Limits: limiter.Report(limit.Limits{CPU: 1, Wall: 1, Memory: 1, Processes: 1, FileSize: 1}),
		Says:   limiter.Says(),
	}
}

// limitWays say by what a limit is enforced.
var limitWays = map[string]string{
	protocol.LimitByCgroup:   "enforced by the kernel, for a command and all that it starts (cgroup)",
	protocol.LimitByRlimit:   "enforced by the kernel, for each process (rlimit)",
	protocol.LimitByWatchdog: "enforced by the server, which measures and kills (watchdog)",
	protocol.LimitByNone:     "not enforced",
}

// text is the report for a person.
func (r limitsReport) text() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, l := range r.Limits {
		status := statusOK
		if !l.Enforced {
			status = statusLimited
		}
		row(table, status, limitNames[l.Name], limitWays[l.By])
	}
	_ = table.Flush() // a Builder takes everything
	b.WriteString(r.Says + "\n")
	return b.String()
}
