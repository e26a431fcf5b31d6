package computer

import (
	"context"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A follower is a session that follows a run. One that follows it again is another.
type follower struct{ session *session }

// follows notes that the session follows a run, until the function it returns is called.
func (s *session) follows(id string) (unfollow func()) {
	if s == nil {
		return func() {}
	}
	c := s.computer
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := &follower{s}
	c.followers[id] = mine
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.followers[id] == mine {
			delete(c.followers, id)
		}
	}
}

// freeFollower reports whether a run that another session follows has become free: that
// one has ended, or does as its client is gone, which shows by its not answering a ping
// (what it sent before it went may be unread still, and means nothing). A client that comes back need not wait until the server has noticed that it was away.
func (s *session) freeFollower(ctx context.Context, id string) bool {
	if s == nil {
		return false
	}
	c := s.computer
	c.mu.Lock()
	holder := c.followers[id]
	c.mu.Unlock()
	if holder == nil {
		return true
	}
	other := holder.session
	if other == s {
		return false
	}
	probing, cancel := context.WithTimeout(ctx, protocol.ProbeTimeout)
	defer cancel()
	if err := other.conn.Ping(probing); err == nil {
		return false
	}
	if ctx.Err() != nil {
		return false
	}
	other.close(rpc.CloseGoingAway, "the client has come back")
	select {
	case <-other.ended:
		return true
	case <-ctx.Done():
		return false
	}
}
