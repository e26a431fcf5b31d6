package fs

import (
	"os"
	"sync"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/protocol"
)

// handles are the block streams of a connection, by the ids that the client chose.
type handles struct {
	mu     sync.Mutex
	byID   map[string]*handle
	closed bool
}

// handle is a block stream. Its fields but the last do not change once it is in use.
type handle struct {
	// One of these is set once fs/open has succeeded.
	reader *os.File
	writer *writer
	helper *helper // that has the stream
	remote string  // its id there

	target lockKey // what a helper's stream replaces
	ready  bool    // guarded by handles.mu
}

// writer is a stream that replaces a file.
type writer struct {
	target *atomicfile.Target
	stage  *atomicfile.Stage
	cond   condition

	mu     sync.Mutex
	failed error // of a write; the content then has a gap that nobody may take for good
}

// reserve takes id for a stream that is being opened.
func (t *handles) reserve(id string) (*handle, error) {
	if err := checkHandleID(id); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byID[id] != nil:
		return nil, refused("file handle `%s` already exists", id)
	case len(t.byID) >= protocol.MaxFileHandles:
		return nil, refused("at most %d file handles may be open per connection", protocol.MaxFileHandles)
	case t.closed:
		return nil, refused("the connection is ending")
	}
	h := &handle{}
	if t.byID == nil {
		t.byID = make(map[string]*handle)
	}
	t.byID[id] = h
	return h, nil
}

// settle makes a reserved id usable, or free again if err is not nil.
func (t *handles) settle(id string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.byID, id)
		return
	}
	t.byID[id].ready = true
}

func checkHandleID(id string) error {
	if len(id) > protocol.MaxHandleIDBytes {
		return refused("file handle ID must not exceed %d bytes", protocol.MaxHandleIDBytes)
	}
	return nil
}

func errUnknownHandle(id string) error {
	return protocol.Errorf(protocol.CodeNotFound, "unknown file handle `%s`", id)
}

// get returns the open stream id.
func (t *handles) get(id string) (*handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.byID[id]
	if h == nil || !h.ready {
		return nil, errUnknownHandle(id)
	}
	return h, nil
}

// take removes the stream id from the table; nil if there is none.
func (t *handles) take(id string) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.byID[id]
	if h == nil || !h.ready {
		return nil
	}
	delete(t.byID, id)
	return h
}

// drop ends the stream id without putting anything in place.
func (t *handles) drop(id string) {
	if h := t.take(id); h != nil {
		h.discard()
	}
}

func (t *handles) closeAll() {
	t.mu.Lock()
	all := t.byID
	t.byID, t.closed = nil, true
	t.mu.Unlock()
	for _, h := range all {
		h.discard()
	}
}

// discard gives up what the stream holds here.
func (h *handle) discard() {
	switch {
	case h.reader != nil:
		_ = h.reader.Close()
	case h.writer != nil:
		h.writer.stage.Discard()
		h.writer.target.Close()
	case h.helper != nil:
		h.helper.unpin()
	}
}
