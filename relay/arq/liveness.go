package arq

import "time"

// liveness knows whether the peer is there. Jitter is drawn anew for each heartbeat.
type liveness struct {
	cfg *Config
	// sent and heard are when the last frame went and came; over a new socket they
	// begin with it.
	sent, heard time.Time
	// beat and silence are how long after those something happens.
	beat, silence time.Duration
	// lost is when contact was lost; zero with contact.
	lost time.Time
	// ask is when to send a resume again that nobody answered, asked how often it
	// was sent.
	ask   time.Time
	asked int
}

func newLiveness(cfg *Config, now time.Time) *liveness {
	l := &liveness{cfg: cfg}
	l.begin(now)
	return l
}

// begin starts anew with a socket.
func (l *liveness) begin(now time.Time) {
	l.sent, l.heard = now, now
	l.beat, l.silence = l.cfg.jittered(Heartbeat), l.cfg.jittered(Silence)
	l.ask, l.asked = time.Time{}, 0
}

// beaten draws the time to the heartbeat after this one.
func (l *liveness) beaten() { l.beat = l.cfg.jittered(Heartbeat) }

func (l *liveness) nextBeat() time.Time   { return l.sent.Add(l.beat) }
func (l *liveness) silentFrom() time.Time { return l.heard.Add(l.silence) }

// endsAt is when the stream ends for want of contact; zero with contact.
func (l *liveness) endsAt() time.Time {
	if l.lost.IsZero() {
		return time.Time{}
	}
	return l.lost.Add(l.cfg.Life)
}
