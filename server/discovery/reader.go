package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/protocol"
)

// reader reads the files of one root, each once, within the limits. What it cannot
// read becomes a warning.
type reader struct {
	ctx      context.Context // of the request, which the reader does not outlive
	files    Files
	sandbox  *protocol.Sandbox
	left     int  // bytes of the root
	total    *int // bytes of the answer
	read     map[string]*protocol.CapabilityFile
	warnings []string
}

// file returns the text file at uri, or nil: when there is none, when what is there
// is no regular file, and, with a warning, when it cannot be had.
func (r *reader) file(uri string) *protocol.CapabilityFile {
	if f, done := r.read[uri]; done {
		return f
	}
	f := r.fetch(uri)
	r.read[uri] = f
	return f
}

func (r *reader) fetch(uri string) *protocol.CapabilityFile {
	info, err := r.files.GetMetadata(r.ctx, &protocol.GetMetadataParams{Path: uri, Sandbox: r.sandbox})
	if isNotFound(err) || err == nil && !info.IsFile {
		return nil
	}
	if err != nil {
		r.warn("failed to inspect capability file %s: %v", uri, err)
		return nil
	}
	if info.Size > protocol.MaxCapabilityFileBytes {
		r.warn("capability file %s exceeds the %d-byte limit", uri, protocol.MaxCapabilityFileBytes)
		return nil
	}
	if !r.fits(int(info.Size)) {
		return nil
	}
	content, err := r.files.ReadFile(r.ctx, &protocol.ReadFileParams{Path: uri, Sandbox: r.sandbox})
	if err != nil {
		r.warn("failed to read capability file %s: %v", uri, err)
		return nil
	}
	return r.accept(uri, content.DataBase64)
}

// accept checks what was read, which may have grown since it was looked at.
func (r *reader) accept(uri string, content []byte) *protocol.CapabilityFile {
	if len(content) > protocol.MaxCapabilityFileBytes {
		r.warn("capability file %s exceeds the %d-byte limit", uri, protocol.MaxCapabilityFileBytes)
		return nil
	}
	if at := invalidUTF8(content); at >= 0 {
		r.warn("capability file %s is not UTF-8: invalid utf-8 sequence at index %d", uri, at)
		return nil
	}
	if !r.fits(len(content)) {
		return nil
	}
	r.left -= len(content)
	*r.total -= len(content)
	return &protocol.CapabilityFile{Path: uri, Contents: string(content)}
}

// fits warns, once, when n bytes more are too many.
func (r *reader) fits(n int) bool {
	switch {
	case n > r.left:
		r.warn("capability root bundle exceeds the %d-byte limit", protocol.MaxCapabilityRootBytes)
	case n > *r.total:
		r.warn("capability discovery exceeds the %d-byte limit of an answer", protocol.MaxCapabilityAnswerBytes)
	default:
		return true
	}
	return false
}

func (r *reader) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); !slices.Contains(r.warnings, w) {
		r.warnings = append(r.warnings, w)
	}
}

// invalidUTF8 is where b stops to be UTF-8, -1 if it does not.
func invalidUTF8(b []byte) int {
	for at := 0; at < len(b); {
		c, size := utf8.DecodeRune(b[at:])
		if c == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

func isNotFound(err error) bool {
	failure, ok := errors.AsType[*protocol.Error](err)
	return ok && failure.Code == protocol.CodeNotFound
}
