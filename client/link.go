package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// maxAnswerValues bounds the JSON values of one message from the server: a listing of
// a million files has ten million.
const maxAnswerValues = 1 << 26

// maxStreams bounds the streams of a connection in each direction. It is for servers to
// say that there are too many.
const maxStreams = 65_536

// link is one connection, for as long as it lives.
type link struct {
	client  *Client
	peer    *rpc.Peer
	streams *stream.Set
	session session       // set before the link is the current one
	done    chan struct{} // closed when nothing is read any more
	err     error         // why; set before done is closed
}

// newLink begins to read from conn. The goroutine ends with the connection, which the
// end of the Client's life ends.
func newLink(c *Client, conn rpc.Connection) (*link, error) {
	l := &link{client: c, done: make(chan struct{})}
	l.peer = rpc.NewPeer(conn, rpc.PeerConfig{Handler: l, Unreadable: func() { l.streams.Unreadable() }, Logger: c.log, MaxValues: maxAnswerValues})
	l.streams = stream.New(l.peer, stream.Config{MaxOut: maxStreams, MaxIn: maxStreams, MaxItemsBytes: protocol.MaxMessageBytes, Logger: c.log})
	ok := c.spawn(func() {
		defer close(l.done)
		defer l.closeStreams()
		stop := context.AfterFunc(c.life, func() { _ = l.peer.Close() })
		defer stop()
		// Without the end of c.life, a connection can wait for a message in ways that only
		// its Close ends.
		l.err = l.peer.Serve(context.WithoutCancel(c.life))
		_ = l.peer.Close()
	})
	if !ok {
		_ = l.peer.Close()
		return nil, ErrClosed
	}
	return l, nil
}

// closeStreams ends the streams of the connection. It does not wait for those that read
// what is to be sent from elsewhere, unless the Client is closing.
func (l *link) closeStreams() {
	end := func() { _ = l.streams.Close() } // never fails
	if !l.client.spawn(end) {
		end()
	}
}

func (l *link) alive() bool {
	select {
	case <-l.done:
		return false
	case <-l.peer.Done():
		return false
	default:
		return true
	}
}

// close ends the connection and waits until nothing is read any more.
func (l *link) close() {
	_ = l.peer.Close()
	<-l.done
}

// initialize opens a session, or resumes the one of that id. lost is true when the
// server no longer had it and opened another.
func (l *link) initialize(ctx context.Context, name, resume string) (s session, lost bool, err error) {
	params := &protocol.InitializeParams{ClientName: name}
	if resume != "" {
		params.ResumeSessionID = &resume
	}
	var result protocol.InitializeResult
	err = l.peer.Call(ctx, protocol.MethodInitialize, params, &result)
	if failure, ok := errors.AsType[*protocol.Error](err); ok && resume != "" && failure.Code == protocol.CodeInvalidRequest {
		// It is unknown. The wire lets the same connection ask for a new one.
		params.ResumeSessionID, lost = nil, true
		err = l.peer.Call(ctx, protocol.MethodInitialize, params, &result)
	}
	if err != nil {
		return session{}, lost, fmt.Errorf("initialize: %w", err)
	}
	if err := l.peer.Notify(ctx, protocol.NotifyInitialized, protocol.Empty{}); err != nil {
		return session{}, lost, fmt.Errorf("initialized: %w", err)
	}
	s = session{id: result.SessionID, info: result.EnvironmentInfo}
	if s.info.Shell.Path == "" { // an older server does not say it in the answer
		if err := l.peer.Call(ctx, protocol.MethodEnvironmentInfo, nil, &s.info); err != nil {
			return session{}, lost, fmt.Errorf("environment/info: %w", err)
		}
	}
	return s, lost, nil
}

// HandleRequest implements rpc.Handler: servers have no requests for this client.
func (l *link) HandleRequest(_ context.Context, req *rpc.Request) {
	req.ReplyInline(nil, protocol.Errorf(protocol.CodeMethodNotFound, "the client does not serve `%s`", req.Method))
}

// exited is process/exited as servers of any age send it.
type exitedParams struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"`
	SandboxDenied *bool  `json:"sandboxDenied" wire:"nullable"`
	Signal        string `json:"signal" wire:"optional"`
	TimedOut      bool   `json:"timedOut" wire:"optional"`
	Limit         string `json:"limit" wire:"optional"`
}

// HandleNotification implements rpc.Handler. It waits while the buffer of a process
// is full, which holds up the server. What cannot be decoded is logged and dropped:
// the hole that it leaves is recovered like any other.
func (l *link) HandleNotification(_ context.Context, method string, params []byte) error {
	var err error
	switch method {
	case protocol.NotifyProcessOutput:
		var out protocol.OutputParams
		if err = wire.Unmarshal(params, &out); err == nil {
			l.toProcess(out.ProcessID, event{seq: out.Seq, kind: outputEvent, stream: out.Stream, data: out.Chunk})
		}
	case protocol.NotifyProcessExited:
		var out exitedParams
		if err = wire.Unmarshal(params, &out); err == nil {
			l.toProcess(out.ProcessID, event{seq: out.Seq, kind: exitedEvent, exit: exit{
				ExitStatus: ExitStatus{Code: out.ExitCode, Signal: out.Signal, TimedOut: out.TimedOut, Limit: out.Limit},
				denied:     out.SandboxDenied,
			}})
		}
	case protocol.NotifyProcessClosed:
		var out protocol.ClosedParams
		if err = wire.Unmarshal(params, &out); err == nil {
			l.toProcess(out.ProcessID, event{seq: out.Seq, kind: closedEvent})
		}
	case protocol.NotifyFsChanged:
		var out protocol.ChangedParams
		if err = wire.Unmarshal(params, &out); err == nil {
			l.toWatch(&out)
		}
	case protocol.NotifyHTTPBodyDelta:
		var out protocol.HTTPBodyDeltaParams
		if err = wire.Unmarshal(params, &out); err == nil {
			l.toBody(&out)
		}
	default:
		_, err = l.streams.HandleNotification(method, params)
	}
	if err != nil {
		l.client.log.Warn("notification does not decode", "method", method, "err", err)
	}
	return nil
}

func (l *link) toProcess(id string, e event) {
	l.client.mu.Lock()
	p := l.client.processes[id]
	l.client.mu.Unlock()
	if p != nil {
		p.handle(l, e)
	}
}

func (l *link) toWatch(change *protocol.ChangedParams) {
	l.client.mu.Lock()
	w := l.client.watches[change.WatchID]
	l.client.mu.Unlock()
	if w != nil {
		w.handle(change)
	}
}

func (l *link) toBody(delta *protocol.HTTPBodyDeltaParams) {
	l.client.mu.Lock()
	b := l.client.bodies[delta.RequestID]
	l.client.mu.Unlock()
	if b != nil {
		b.handle(l, delta)
	}
}

// stall waits until room is closed, for at most the Client's StallTimeout; false when
// it was in vain. It is called on the reading goroutine.
func (l *link) stall(room <-chan struct{}) bool {
	var timeout <-chan time.Time
	if l.client.opts.StallTimeout > 0 {
		timer := time.NewTimer(l.client.opts.StallTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-room:
		return true
	case <-l.peer.Done():
		return true // nothing more will come
	case <-timeout:
		return false
	}
}
