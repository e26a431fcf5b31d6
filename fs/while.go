package fs

import (
	"context"
	"io"
)

// whileReader reads from r while ctx lasts: the work of a request ends with its
// connection, however long the file is.
type whileReader struct {
	ctx context.Context
	r   io.Reader
}

func (w whileReader) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.r.Read(p)
}
