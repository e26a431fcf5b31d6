package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/protocol"
)

// maxInline is the largest file that is read or written with one message; larger
// ones go in blocks, so that no limit on messages is met and other traffic is not held
// up.
const maxInline = 4 << 20

// ReadFile reads a whole file.
func (c *Client) ReadFile(ctx context.Context, name string) ([]byte, error) {
	meta, err := c.metadata(ctx, name, false)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if meta.Size <= maxInline || !meta.IsFile {
		data, _, err := c.readInline(ctx, name, false)
		return data, err
	}
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	data := make([]byte, meta.Size)
	n, err := io.ReadFull(f, data)
	if err == nil {
		var rest []byte // it has grown
		rest, err = io.ReadAll(f)
		data = append(data, rest...)
	} else if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		data, err = data[:n], nil // it has shrunk
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// ReadFileHash reads a whole file of up to 512 MiB in one message and returns the hash
// of just that content, for a conditional write. It needs the capability
// fsConditionalWrites.
func (c *Client) ReadFileHash(ctx context.Context, name string) (data []byte, hash string, err error) {
	if err := c.need(ctx, protocol.CapFsConditional); err != nil {
		return nil, "", err
	}
	return c.readInline(ctx, name, true)
}

func (c *Client) readInline(ctx context.Context, name string, hash bool) ([]byte, string, error) {
	uri, err := c.uri(ctx, name)
	if err != nil {
		return nil, "", err
	}
	params := &protocol.ReadFileParams{Path: uri}
	if hash {
		params.IncludeHash = &hash
	}
	var result protocol.ReadFileResult
	if err := c.call(ctx, protocol.MethodFsReadFile, params, &result); err != nil {
		return nil, "", pathError("open", name, err)
	}
	return result.DataBase64, result.Hash, nil
}

// WriteOptions are what a write may be told; nil and the zero value work.
type WriteOptions struct {
	// Mode is the permissions of a file that is created, less the server's umask; 0
	// means 0666. Another needs a server that announces fsAtomicWrites.
	Mode iofs.FileMode
	// IfMatch is the hash that the file must have now; "" asks nothing.
	IfMatch string
	// IfAbsent wants that there is no file.
	IfAbsent bool
	// IncludeHash wants the hash of what was written.
	IncludeHash bool
}

// conditions are WriteOptions in the wire's form.
type conditions struct {
	ifMatch, ifNoneMatch *string
	mode                 *uint32
	hash                 *bool
}

func (c *Client) conditions(ctx context.Context, o *WriteOptions) (conditions, error) {
	var out conditions
	if o == nil {
		return out, nil
	}
	if o.IfMatch != "" {
		out.ifMatch = &o.IfMatch
	}
	if o.IfAbsent {
		any := "*"
		out.ifNoneMatch = &any
	}
	if o.IncludeHash {
		out.hash = &o.IncludeHash
	}
	if out != (conditions{}) {
		if err := c.need(ctx, protocol.CapFsConditional); err != nil {
			return out, err
		}
	}
	if o.Mode != 0 {
		if err := c.need(ctx, protocol.CapFsAtomicWrites); err != nil {
			return out, err
		}
		bits := bitsOf(o.Mode)
		out.mode = &bits
	}
	return out, nil
}

// WriteFile replaces a file, or creates it, and returns its hash if opts asks for it.
// wsd does so atomically: a reader sees the old content or the new. A condition that
// is not met is a *PreconditionError. IncludeHash is for data of up to 4 MiB.
func (c *Client) WriteFile(ctx context.Context, name string, data []byte, opts *WriteOptions) (hash string, err error) {
	if len(data) > maxInline {
		return "", c.writeBlocks(ctx, name, data, opts)
	}
	uri, err := c.uri(ctx, name)
	if err != nil {
		return "", err
	}
	cond, err := c.conditions(ctx, opts)
	if err != nil {
		return "", err
	}
	var result protocol.WriteFileResult
	err = c.call(ctx, protocol.MethodFsWriteFile, &protocol.WriteFileParams{
		Path: uri, DataBase64: data, IfMatch: cond.ifMatch, IfNoneMatch: cond.ifNoneMatch, IncludeHash: cond.hash, Mode: cond.mode,
	}, &result)
	return result.Hash, pathError("write", name, err)
}

func (c *Client) writeBlocks(ctx context.Context, name string, data []byte, opts *WriteOptions) error {
	if opts != nil && opts.IncludeHash {
		return fmt.Errorf("write %s: the hash of %d bytes is not returned; use StatHash", name, len(data))
	}
	f, err := c.Create(ctx, name, opts)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Close()
}
