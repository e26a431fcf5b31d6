package main

import (
	"context"
	"regexp"
	"slices"
)

// A measure takes one or more figures of a subject.
type measure struct {
	figures []string // what run returns, by their names in figures
	run     func(ctx context.Context, s *subject) ([]float64, error)
}

func (m measure) matches(pick *regexp.Regexp) bool {
	return slices.ContainsFunc(m.figures, pick.MatchString)
}

// measures, in the order they are taken.
var measures = []measure{
	{[]string{"one-shot", "one-shot cpu"}, oneShot(false)},
	{[]string{"one-shot quickack"}, oneShot(true)},
	{[]string{"starts"}, starts},
	{[]string{"stdout", "stdout cpu"}, stdout},
	{[]string{"pty echo"}, echo(false)},
	{[]string{"pty echo quickack"}, echo(true)},
	{[]string{"write 16 MiB", "read 16 MiB"}, files(16<<20, 3)},
	{[]string{"write 1 MiB", "read 1 MiB"}, files(1<<20, 20)},
	{[]string{"write 4 KiB", "read 4 KiB"}, smallFiles},
	{[]string{"getMetadata"}, metadata},
	{[]string{"readDirectory"}, directory},
	{[]string{"blocks"}, blocks},
	{[]string{"idle connection", "time to listen"}, idle},
}

// A goal says what is wanted of a figure of wsd's.
type goal struct {
	text string
	met  func(wsd, peer, floor float64) bool
}

// noise is how much worse than the peer a figure may come out and still count as no
// worse: two runs of one program differ by as much.
const noise = 1.05

var (
	noWorseLow  = goal{"no worse", func(wsd, peer, _ float64) bool { return wsd <= peer*noise }}
	noWorseHigh = goal{"no worse", func(wsd, peer, _ float64) bool { return wsd*noise >= peer }}
	twiceFloor  = goal{"<= 2 x floor", func(wsd, _, floor float64) bool { return wsd <= 2*floor }}
	eightTimes  = goal{">= 8 x", func(wsd, peer, _ float64) bool { return wsd >= 8*peer }}
)

// atMost wants a figure of at most limit.
func atMost(text string, limit float64) goal {
	return goal{text, func(wsd, _, _ float64) bool { return wsd <= limit }}
}

// A figure is a line of the report.
type figure struct {
	name   string
	unit   string
	higher bool // a higher value is better
	total  bool // the mean of the rounds counts, not the median
	what   string
	goal   goal
}

var figures = []figure{
	{"one-shot", "ms", false, false, "start of `true` until closed, p50, ordinary client", twiceFloor},
	{"one-shot quickack", "ms", false, false, "the same, client that acknowledges at once", twiceFloor},
	{"one-shot cpu", "ms", false, true, "processor time a command, children included", atMost("<= 4 ms", 4)},
	{"starts", "1/s", true, false, "commands a second, 16 under way", goal{">= 5 x", func(w, p, _ float64) bool { return w >= 5*p }}},
	{"stdout", "MB/s", true, false, "128 MiB of a child's output", goal{">= 1.5 x", func(w, p, _ float64) bool { return w >= 1.5*p }}},
	{"stdout cpu", "ms/MB", false, true, "the server's own processor time", goal{"<= 0.5 x", func(w, p, _ float64) bool { return w <= 0.5*p }}},
	{"pty echo", "ms", false, false, "keystroke until echo, p50, ordinary client", atMost("< 0.2 ms", 0.2)},
	{"pty echo quickack", "ms", false, false, "the same, client that acknowledges at once", noWorseLow},
	{"write 16 MiB", "MB/s", true, false, "fs/writeFile", eightTimes},
	{"read 16 MiB", "MB/s", true, false, "fs/readFile", eightTimes},
	{"write 1 MiB", "MB/s", true, false, "fs/writeFile", noWorseHigh},
	{"read 1 MiB", "MB/s", true, false, "fs/readFile", noWorseHigh},
	{"write 4 KiB", "ms", false, false, "fs/writeFile, p50", noWorseLow},
	{"read 4 KiB", "ms", false, false, "fs/readFile, p50", noWorseLow},
	{"getMetadata", "ms", false, false, "fs/getMetadata, p50", noWorseLow},
	{"readDirectory", "ms", false, false, "fs/readDirectory of 10,000 entries, p50", noWorseLow},
	{"blocks", "MB/s", true, false, "64 MiB by fs/readBlock of 1 MiB, one after the other", noWorseHigh},
	{"idle connection", "KiB", false, false, "resident memory an initialized connection", atMost("<= 64 KiB", 64)},
	{"time to listen", "ms", false, false, "from the spawn until its URL is printed", atMost("<= 30 ms", 30)},
}
