package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

func (s *Service) open(ctx context.Context, p *protocol.OpenParams) (*protocol.OpenResult, error) {
	id := p.HandleID
	if p.Mode != "" && p.Mode != protocol.OpenRead && p.Mode != protocol.OpenReplace {
		return nil, protocol.InvalidParams("unknown variant `%s`, expected `read` or `replace`", p.Mode)
	}
	h, err := s.handles.reserve(p.HandleID)
	if err != nil {
		return nil, err
	}
	err = s.openHandle(ctx, p, h)
	s.handles.settle(id, err)
	if err != nil {
		return nil, err
	}
	return &protocol.OpenResult{HandleID: id}, nil
}

func (s *Service) openHandle(ctx context.Context, p *protocol.OpenParams, h *handle) error {
	replace := p.Mode == protocol.OpenReplace
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return err
	}
	helper, release, err := s.helperFor(ctx, p.Sandbox)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case helper != nil:
		if replace {
			h.target = keyOf(path)
		}
		h.remote = helper.newID()
		p.Sandbox, p.HandleID = nil, h.remote
		if err := helper.call(ctx, protocol.MethodFsOpen, p, nil); err != nil {
			return err
		}
		helper.pin()
		h.helper = helper
	case replace:
		h.writer, err = openWriter(path, p)
	default:
		if p.IfMatch != nil || p.IfNoneMatch != nil || p.FileMode != nil {
			return protocol.InvalidParams("ifMatch, ifNoneMatch and fileMode are for streams that replace a file")
		}
		h.reader, _, err = openRead(path, true)
	}
	return err
}

// keyOf is the entry that writing to path writes; the zero key when it has none.
func keyOf(path string) lockKey {
	target, err := atomicfile.Resolve(path, true)
	if err != nil {
		return lockKey{}
	}
	defer target.Close()
	return target.Key()
}

func openWriter(path string, p *protocol.OpenParams) (*writer, error) {
	w := &writer{}
	var err error
	if w.cond, err = newCondition(p.IfMatch, p.IfNoneMatch); err != nil {
		return nil, err
	}
	mode, err := fileMode(p.FileMode)
	if err != nil {
		return nil, err
	}
	if w.target, err = atomicfile.Resolve(path, true); err != nil {
		return nil, err
	}
	current, err := w.target.Inspect()
	if err == nil && current != nil && !current.Regular() {
		err = notAFile(path)
	}
	if err == nil {
		w.stage, err = w.target.NewStage(current, mode)
	}
	current.Close()
	if err != nil {
		w.target.Close()
		return nil, err
	}
	return w, nil
}

func (s *Service) readBlock(ctx context.Context, p *protocol.ReadBlockParams) (*protocol.ReadBlockResult, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if p.Len == 0 || p.Len > protocol.MaxBlockBytes {
		return nil, refused("file read block length must be between 1 and %d", protocol.MaxBlockBytes)
	}
	h, err := s.handles.get(p.HandleID)
	if err != nil {
		return nil, err
	}
	result := &protocol.ReadBlockResult{}
	switch {
	case h.helper != nil:
		id := p.HandleID
		p.HandleID = h.remote
		if err := h.helper.call(ctx, protocol.MethodFsReadBlock, p, result); err != nil {
			s.handles.drop(id) // the helper's stream is over as well
			return nil, err
		}
		return result, nil
	case h.reader == nil:
		err = unix.EBADF
	case p.Offset > math.MaxInt64:
		err = unix.EINVAL
	default:
		result.Chunk, err = readAt(ctx, h.reader, int64(p.Offset), int(p.Len))
	}
	if err != nil { // a stream that failed to read is over
		s.handles.drop(p.HandleID)
		return nil, err
	}
	result.EOF = len(result.Chunk) < int(p.Len)
	return result, nil
}

// readAt reads n bytes, fewer only at the end of the file.
func readAt(ctx context.Context, f *os.File, offset int64, n int) ([]byte, error) {
	size := n
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		// No more than there is, but enough to see a file grow.
		size = int(min(int64(n), max(info.Size()-offset, 0)+4096))
	}
	data := newContent(ctx, size)
	for len(data) < n {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, n), data...)
		}
		room := min(cap(data), n)
		got, err := f.ReadAt(data[len(data):room], offset+int64(len(data)))
		data = data[:len(data)+got]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

func (s *Service) writeBlock(ctx context.Context, p *protocol.WriteBlockParams) (*protocol.Empty, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if len(p.Chunk) == 0 || len(p.Chunk) > protocol.MaxBlockBytes {
		return nil, refused("file write block length must be between 1 and %d", protocol.MaxBlockBytes)
	}
	if p.Offset > math.MaxInt64-uint64(len(p.Chunk)) {
		return nil, refused("file write range exceeds the signed 64-bit file offset limit")
	}
	h, err := s.handles.get(p.HandleID)
	switch {
	case err != nil:
	case h.helper != nil:
		p.HandleID = h.remote
		err = h.helper.call(ctx, protocol.MethodFsWriteBlock, p, nil)
	case h.writer == nil:
		err = unix.EBADF
	default:
		err = h.writer.writeAt(p.Chunk, int64(p.Offset))
	}
	return &protocol.Empty{}, err
}

func (w *writer) writeAt(data []byte, offset int64) error {
	_, err := w.stage.File().WriteAt(data, offset)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed = err
	}
	return err
}

func (s *Service) closeHandle(ctx context.Context, p *protocol.CloseHandleParams) (*protocol.Empty, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return nil, err
	}
	h := s.handles.take(p.HandleID)
	if h == nil {
		return &protocol.Empty{}, nil
	}
	defer h.discard()
	if h.helper == nil && (h.writer == nil || isSet(p.Discard)) {
		return &protocol.Empty{}, nil
	}
	key := h.target
	if h.writer != nil {
		key = h.writer.target.Key()
	}
	unlock, err := s.host.locks.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	if h.helper != nil {
		p.HandleID = h.remote
		return &protocol.Empty{}, h.helper.change(ctx, unlock, protocol.MethodFsClose, p, nil)
	}
	defer unlock()
	return &protocol.Empty{}, h.writer.commit(ctx)
}

// commit puts the content in place.
func (w *writer) commit(ctx context.Context) error {
	w.mu.Lock()
	failed := w.failed
	w.mu.Unlock()
	if failed != nil {
		return fmt.Errorf("nothing was replaced, since a write of this stream failed: %s", errorText(failed))
	}
	var o atomicfile.Options
	w.cond.apply(ctx, &o, w.target)
	return w.cond.failed(ctx, w.stage.Commit(o), w.target)
}
