package changes

import (
	"context"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Await settles whenever something has stirred on the disk. It returns, too, when other paths are left
// out than before.
func (s *Server) Await(ctx context.Context, after, known int64) (int64, error) {
	if known == 0 {
		var err error
		if known, err = lost.Last(ctx, s.forest); err != nil {
			return 0, err
		}
	}
	left := s.ws.Skipped(nil)
	limit := time.NewTimer(MaxAwait)
	defer limit.Stop()
	for {
		changed, lose, stirred := s.tree.Changed(), s.forest.Changed(lost.Tree), s.ws.Stirred()
		if err := s.ws.Settle(ctx); err != nil {
			return 0, settleError(err)
		}
		info, err := s.tree.Info(ctx)
		if err != nil || info.Rev > after || !SameSkipped(left, s.ws.Skipped(nil)) {
			return info.Rev, err
		}
		if last, err := lost.Last(ctx, s.forest); err != nil || last > known {
			return info.Rev, err
		}
		look := (<-chan time.Time)(nil)
		if stirred == nil {
			look = time.After(awaitLook)
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-limit.C:
			return info.Rev, nil
		case <-look:
		case <-changed:
		case <-lose:
		case <-stirred:
			select {
			case <-ctx.Done():
			case <-time.After(awaitPause):
			}
		}
	}
}

// await answers sync/await. One that comes while another one of the connection waits ends that.
func (s *Service) await(ctx context.Context, p *protocol.AwaitParams) (*protocol.AwaitResult, error) {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	if s.relieve != nil {
		s.relieve(errRelieved)
	}
	s.relieve = cancel
	s.mu.Unlock()
	rpc.Async(ctx)
	rev, err := s.peer.Await(wait, p.After, p.Lost)
	if err != nil && errors.Is(context.Cause(wait), errRelieved) {
		return &protocol.AwaitResult{CurrentRev: p.After}, nil
	}
	return &protocol.AwaitResult{CurrentRev: rev}, err
}
