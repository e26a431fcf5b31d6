package fs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// helpers are the confined helpers of a connection, one for each distinct sandbox.
type helpers struct {
	service *Service
	ids     atomic.Uint64 // of streams and watches in helpers

	mu    sync.Mutex
	byKey map[helperKey]*helper
	// retired are those that serve no new requests.
	retired map[*helper]struct{}
	clock   uint64
	closed  bool
}

// helperKey is the hash of a sandbox object and of the generation of its helper.
type helperKey [sha256.Size]byte

// helper is a process, or what stands for one, that serves fs/* confined.
type helper struct {
	service *Service
	key     helperKey
	ready   chan struct{} // closed once peer or err is set
	peer    *rpc.Peer
	current func() bool     // reports whether a new helper would be confined alike
	gone    <-chan struct{} // closed when it changes nothing any more
	err     error

	// Guarded by helpers.mu.
	users int         // requests under way
	pins  int         // streams and watches in it
	used  uint64      // when, by helpers.clock
	idle  *time.Timer // ends it once nothing is open in it, or nil
}

// helperIdle is how long a helper waits for the next request. While it lives, empty
// directories stand in the client's workspace for .git and other names that must not
// be made there, and get in the way of what is not confined.
const helperIdle = 300 * time.Millisecond

// errHelperEnded is the error of calls to a helper that is gone.
var errHelperEnded = errors.New("the sandbox helper has ended")

// helperFor returns the helper that requests with sandbox run in, nil when they run
// here. release must be called when the request has ended.
func (s *Service) helperFor(ctx context.Context, sandbox *protocol.Sandbox) (h *helper, release func(), err error) {
	if sandbox == nil {
		return nil, func() {}, nil
	}
	if s.sandbox == nil {
		if isUnrestricted(sandbox) {
			return nil, func() {}, nil
		}
		return nil, nil, protocol.InvalidParams("sandboxing is unavailable here, and this request asks for it")
	}
	direct, err := s.sandbox.Direct(sandbox)
	if err != nil {
		return nil, nil, err
	}
	if direct {
		return nil, func() {}, nil
	}
	text, err := wire.Append(binary.NativeEndian.AppendUint64(nil, s.sandbox.Generation()), sandbox)
	if err != nil {
		return nil, nil, fmt.Errorf("encode sandbox: %w", err)
	}
	key := helperKey(sha256.Sum256(text))
	for {
		h, begun, err := s.helpers.get(key, sandbox)
		if err != nil {
			return nil, nil, err
		}
		release = func() { s.helpers.leave(h) }
		select {
		case <-h.ready:
		case <-ctx.Done():
			release()
			return nil, nil, context.Cause(ctx)
		}
		if h.err != nil {
			release()
			return nil, nil, h.err
		}
		if begun || h.current() {
			return h, release, nil
		}
		s.helpers.retire(h) // what is denied has changed since it started
		release()
	}
}

// isUnrestricted reports whether a sandbox restricts no files.
func isUnrestricted(s *protocol.Sandbox) bool {
	switch p := &s.Permissions; p.Type {
	case protocol.PermissionsDisabled, protocol.PermissionsExternal:
		return true
	case protocol.PermissionsManaged:
		return p.FileSystem != nil && p.FileSystem.Type == protocol.FileSystemUnrestricted
	}
	return false
}

// get returns the helper for a sandbox, in use. begun is true when there was none and
// it is only starting.
func (t *helpers) get(key helperKey, sandbox *protocol.Sandbox) (h *helper, begun bool, err error) {
	h, begun, evicted, err := t.reserve(key, sandbox)
	if evicted != nil && evicted.peer != nil {
		_ = evicted.peer.Close()
	}
	return h, begun, err
}

// retire keeps a helper from further requests. It lives on while streams and watches
// are open in it.
func (t *helpers) retire(h *helper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[h.key] == h {
		delete(t.byKey, h.key)
		t.retired[h] = struct{}{}
	}
}

func (t *helpers) reserve(key helperKey, sandbox *protocol.Sandbox) (h *helper, begun bool, evicted *helper, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, nil, refused("the connection is ending")
	}
	t.clock++
	if h = t.byKey[key]; h != nil {
		h.users++
		h.used = t.clock
		if h.idle != nil {
			h.idle.Stop()
		}
		return h, false, nil, nil
	}
	if len(t.byKey)+t.busyRetired() >= protocol.MaxSandboxHelpers {
		if evicted = t.evict(); evicted == nil {
			return nil, false, nil, refused("at most %d different sandboxes may be in use per connection", protocol.MaxSandboxHelpers)
		}
	}
	if t.byKey == nil {
		t.byKey = make(map[helperKey]*helper)
		t.retired = make(map[*helper]struct{})
	}
	h = &helper{service: t.service, key: key, ready: make(chan struct{}), users: 1, used: t.clock}
	t.byKey[key] = h
	t.service.wg.Go(func() { t.run(h, sandbox) }) // until the helper or the Service ends
	return h, true, evicted, nil
}

// busyRetired counts the retired helpers that still have something open.
func (t *helpers) busyRetired() int {
	n := 0
	for h := range t.retired {
		if h.users > 0 || h.pins > 0 {
			n++
		}
	}
	return n
}

// evict removes the least recently used helper that has nothing open. A helper that is
// starting stays. The helper returned has no peer if its start has failed.
func (t *helpers) evict() *helper {
	var oldest *helper
	for _, h := range t.byKey {
		if h.users == 0 && h.pins == 0 && h.isReady() && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		delete(t.byKey, oldest.key)
	}
	return oldest
}

// isReady reports whether peer or err is set.
func (h *helper) isReady() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

// maxHelperValues bounds the JSON values of one message from a helper: a listing of
// all that fits a message.
const maxHelperValues = 1 << 26

// run starts a helper and serves its connection to the end.
func (t *helpers) run(h *helper, sandbox *protocol.Sandbox) {
	s := t.service
	defer t.remove(h)
	conn, err := s.sandbox.Start(s.ctx, sandbox)
	if err != nil {
		h.err = wireError(err)
		close(h.ready)
		return
	}
	h.peer = rpc.NewPeer(conn, rpc.PeerConfig{
		Handler: h, Logger: s.logger, MaxValues: maxHelperValues,
		Account: rpc.AccountOf(s.notifier), OnlyAnswers: true,
	})
	h.gone = goneOf(conn)
	h.current = func() bool { return true }
	if aging, ok := conn.(interface{ Current() bool }); ok {
		h.current = newSharedCheck(aging.Current).ask
	}
	close(h.ready)
	err = h.peer.Serve(s.ctx)
	_ = h.peer.Close()
	if err != nil && s.ctx.Err() == nil && !errors.Is(err, rpc.ErrClosed) {
		s.logger.Warn("sandbox helper failed", "err", err)
	}
	s.watches.endOf(h)
}

// remove takes a helper that has ended from the table.
func (t *helpers) remove(h *helper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[h.key] == h {
		delete(t.byKey, h.key)
	}
	delete(t.retired, h)
}

func (t *helpers) leave(h *helper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.users--
	t.rest(h)
}

// rest has h end soon if nothing is open in it. The caller holds t.mu.
func (t *helpers) rest(h *helper) {
	switch {
	case h.users > 0 || h.pins > 0:
	case h.idle == nil:
		h.idle = time.AfterFunc(t.service.host.helperIdle, func() { t.expire(h) })
	default:
		h.idle.Reset(t.service.host.helperIdle)
	}
}

// expire ends h unless it is in use again.
func (t *helpers) expire(h *helper) {
	t.mu.Lock()
	if !h.isReady() {
		t.rest(h) // its user has left before it was there
		t.mu.Unlock()
		return
	}
	over := h.users == 0 && h.pins == 0
	if over {
		maps.DeleteFunc(t.byKey, func(_ helperKey, other *helper) bool { return other == h })
	}
	t.mu.Unlock()
	if over && h.peer != nil {
		_ = h.peer.Close()
	}
}

// closeAll keeps new helpers from starting. Those that run end with the context of
// the Service.
func (t *helpers) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, h := range t.byKey {
		if h.idle != nil {
			h.idle.Stop()
		}
	}
}

// pin keeps the helper while something in it is open.
func (h *helper) pin()   { h.count(1) }
func (h *helper) unpin() { h.count(-1) }

func (h *helper) count(n int) {
	t := &h.service.helpers
	t.mu.Lock()
	defer t.mu.Unlock()
	h.pins += n
	t.rest(h)
}

// newID makes an id for something in a helper.
func (h *helper) newID() string { return strconv.FormatUint(h.service.helpers.ids.Add(1), 10) }

// call has the helper serve a request.
func (h *helper) call(ctx context.Context, method string, params, result any) error {
	err := h.peer.Call(ctx, method, params, result)
	if errors.Is(err, rpc.ErrClosed) {
		h.service.helpers.remove(h) // the next request is for another
		return errHelperEnded
	}
	return err
}

// change is call for a request that changes what unlock unlocks. It keeps the lock until the
// helper has answered or is gone: a helper that has lost its connection may still write.
// When ctx ends, change ends the helper and returns without waiting for its end.
func (h *helper) change(ctx context.Context, unlock func(), method string, params, result any) error {
	mayWrite := false
	defer func() {
		if !mayWrite {
			unlock()
			return
		}
		go func() { // ends with the helper, which is killed if it does not end by itself
			<-h.gone
			unlock()
		}()
	}()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := h.call(ctx, method, params, result)
	_, answered := errors.AsType[*protocol.Error](err)
	switch {
	case err == nil || answered:
	case ctx.Err() != nil:
		mayWrite = true
		_ = h.peer.Close()
	default:
		mayWrite = errors.Is(err, errHelperEnded)
	}
	return err
}

// goneOf returns the channel that is closed when the helper behind conn changes nothing any
// more. One that does not say so is gone with its connection.
func goneOf(conn rpc.Connection) <-chan struct{} {
	if leaving, ok := conn.(interface{ Gone() <-chan struct{} }); ok {
		return leaving.Gone()
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// HandleRequest refuses: a helper has nothing to ask.
func (h *helper) HandleRequest(_ context.Context, req *rpc.Request) {
	req.ReplyInline(nil, protocol.Errorf(protocol.CodeMethodNotFound, "a helper is served no `%s`", req.Method))
}

// HandleNotification passes on what the helper tells of its watches. It waits while
// the client takes no more, and holds the helper back with that.
func (h *helper) HandleNotification(_ context.Context, method string, params []byte) error {
	if method != protocol.NotifyFsChanged {
		return refused("unexpected notification `%s` from a helper", method)
	}
	changed := &protocol.ChangedParams{}
	if params == nil {
		return refused("`%s` has no params", method)
	}
	if err := wire.Unmarshal(params, changed); err != nil {
		return fmt.Errorf("decode %s: %w", method, err)
	}
	w := h.service.watches.remoteOf(h, changed.WatchID)
	if w == nil {
		return nil // it has just ended
	}
	select {
	case <-w.answered:
	case <-w.ctx.Done():
		return nil
	}
	changed.WatchID = w.id
	_ = h.service.notifier.Notify(w.ctx, method, changed) // fails when client or watch are gone
	return nil
}

// watch sets a watch in the helper.
func (h *helper) watch(ctx context.Context, p *protocol.WatchParams, w *subscription, result *protocol.WatchResult) error {
	w.remote = h.newID()
	h.service.watches.setHelper(w, h)
	h.pin()
	remote := *p
	remote.WatchID, remote.Sandbox = w.remote, nil
	err := h.call(ctx, protocol.MethodFsWatch, &remote, result)
	if err != nil {
		h.unpin()
	}
	return err
}

// setHelper says where a watch is, before it begins there.
func (t *watches) setHelper(w *subscription, h *helper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.helper = h
}

// remoteOf finds the watch that a helper knows as remote.
func (t *watches) remoteOf(h *helper, remote string) *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.byID {
		if w.helper == h && w.remote == remote {
			return w
		}
	}
	return nil
}

// endOf tells the client of each watch in a helper that ended that changes are lost
// from now on.
func (t *watches) endOf(h *helper) {
	t.mu.Lock()
	var lost []*subscription
	for _, w := range t.byID {
		if w.helper == h {
			lost = append(lost, w)
		}
	}
	t.mu.Unlock()
	for _, w := range lost {
		select {
		case <-w.answered:
			_ = h.service.notifier.Notify(w.ctx, protocol.NotifyFsChanged, &protocol.ChangedParams{WatchID: w.id, Overflow: true})
		case <-w.ctx.Done():
		}
	}
}
