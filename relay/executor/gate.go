package executor

import "time"

// A gate counts the failed handshakes of one connection, and closes for a while when
// there were too many. Those that succeed do not clear the count.
type gate struct {
	failures int
	until    time.Time
}

// charge counts a failure.
func (g *gate) charge(now time.Time) {
	g.failures++
	if g.failures >= MaxFailures {
		g.failures, g.until = 0, now.Add(Cooldown)
	}
}

// closed reports whether handshakes are reset unseen.
func (g *gate) closed(now time.Time) bool { return now.Before(g.until) }
