package wsconn

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// A pinger sends pings, and gives its connection up when the answer does not come, if
// there must be one. A nil one does nothing.
type pinger struct {
	c     *Conn
	timer *time.Timer

	mu      sync.Mutex
	sent    time.Time
	waiting bool // for a pong that must come
	stopped bool
}

func startPings(c *Conn) *pinger {
	if c.cfg.PingInterval <= 0 {
		return nil
	}
	p := &pinger{c: c}
	p.timer = time.AfterFunc(time.Hour, p.due)
	p.timer.Reset(c.cfg.PingInterval) // not at once: due uses p.timer
	return p
}

// due runs when the next ping, or the answer to the last one, is due.
func (p *pinger) due() {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return
	}
	if p.waiting {
		p.mu.Unlock()
		p.c.giveUp(ErrSilent)
		return
	}
	p.sent, p.waiting = time.Now(), p.c.cfg.PongTimeout > 0
	if p.waiting {
		p.timer.Reset(p.c.cfg.PongTimeout)
	} else {
		p.timer.Reset(p.c.cfg.PingInterval)
	}
	p.mu.Unlock()
	p.c.control(websocket.PingMessage, nil, controlWait, controlWait)
}

// pong is called for each pong.
func (p *pinger) pong() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting && !p.stopped {
		p.waiting = false
		p.timer.Reset(max(0, p.c.cfg.PingInterval-time.Since(p.sent)))
	}
}

func (p *pinger) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
}
