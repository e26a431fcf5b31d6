package capnweb

import "context"

// Memory is what sessions take for what they hold, so that many of them together have a
// bound. A *rpc.Account is one. It is safe for concurrent use.
type Memory interface {
	// Take takes n bytes. It may wait for them; its error says that there are none, or is
	// the cause of ctx's end.
	Take(ctx context.Context, n int64) error
	// Force takes n bytes that are in use already.
	Force(n int64)
	// Give gives n bytes back.
	Give(n int64)
	// Over reports whether more has been taken than is this session's share.
	Over() bool
}

// noMemory has no bound.
type noMemory struct{}

func (noMemory) Take(context.Context, int64) error { return nil }
func (noMemory) Force(int64)                       {}
func (noMemory) Give(int64)                        {}
func (noMemory) Over() bool                        { return false }

// errShort is what a peer is told that has asked for more than its share.
var errShort = limitErrorf("memory is in use by other large calls; try again in a while, or ask for less at a time")

const (
	// entryOverhead is what each export and import counts.
	entryOverhead = 256
	// shareExports is how many exports a session may hold beyond its share of Memory.
	shareExports = 1024
)

// weigh has Memory hold what the session holds: calls, results, chunks of streams, and
// messages that wait to be written. It is called under the lock whenever that may have
// changed, and counts nothing once the session's goroutines have ended.
func (s *Session) weigh() {
	now := 0
	if s.ended == nil || s.routines > 0 {
		now = s.callBytes + s.heldBytes + s.streamBytes + s.out.bytes + entryOverhead*(len(s.exports)+len(s.imports))
	}
	switch more := int64(now - s.weighed); {
	case more > 0:
		s.memory.Force(more)
	case more < 0:
		s.memory.Give(-more)
	}
	s.weighed = now
}
