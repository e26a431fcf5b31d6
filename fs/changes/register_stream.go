package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/protocol/wire"
)

var errHash = fmt.Errorf("%w: a hash has 64 hexadecimal digits", tree.ErrInvalid)

// ToSource has the items of a stream sent in the form that form gives, which is a W, or
// what encodes like one.
func ToSource[T, W any](s Stream[T], form func(*T) W) stream.Source {
	return stream.Source{
		Next: func(ctx context.Context) (any, error) {
			item, err := s.Next(ctx)
			if err != nil {
				return nil, err
			}
			return form(&item), nil
		},
		Close:    s.Close,
		Describe: named,
	}
}

// FromStream is the stream whose items arrive in the form W, of which form makes them.
// Errors of the writer have the codes that it told.
func FromStream[T, W any](in *stream.In, form func(*W) (T, error)) Stream[T] {
	return FromFunc(func(ctx context.Context) (item T, err error) {
		raw, err := in.Next(ctx)
		if err != nil {
			return item, told(err)
		}
		var w W
		if err := wire.Unmarshal(raw, &w); err != nil {
			return item, &Error{Code: "EINVAL", Err: err}
		}
		return form(&w)
	}, func(err error) {
		if e := told(err); e != nil && !errors.Is(e, io.EOF) {
			err = named(e)
		}
		in.Close(err)
	})
}

// told is an error of a stream, with the code that its writer told.
func told(err error) error {
	if e, ok := errors.AsType[*protocol.NamedError](err); ok {
		return &Error{Code: e.Code, Path: e.Path, Err: err}
	}
	return err
}

// ObjectToWire is the JSON form of an object.
func ObjectToWire(d *tree.Data) *protocol.SyncObject {
	return &protocol.SyncObject{Hash: d.Hash.String(), Bytes: d.Bytes, Last: d.Last}
}

// ObjectFromWire is the object that a JSON form stands for. Whether the bytes have the
// hash is left to who keeps it.
func ObjectFromWire(o *protocol.SyncObject) (tree.Data, error) {
	h, err := ParseHash(o.Hash)
	return tree.Data{Hash: h, Bytes: o.Bytes, Last: o.Last}, err
}

// PieceToWire is the JSON form of a piece of a pack.
func PieceToWire(p *[]byte) protocol.Bytes { return *p }

// PieceFromWire is the piece that a JSON form stands for.
func PieceFromWire(b *protocol.Bytes) ([]byte, error) { return *b, nil }

// answerError is what a client is told of an error.
func answerError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*protocol.Error](err); ok {
		return err
	}
	if e := named(told(err)); e.Code != "" {
		return e.Answer()
	}
	return err
}

// named is the form that an error has on the wire.
func named(err error) *protocol.NamedError {
	return &protocol.NamedError{Code: Code(err), Message: err.Error(), Path: shownPath(err)}
}

// shownPath is the path that an error is about, cut to the length that paths have.
func shownPath(err error) string {
	path := Path(err)
	if len(path) > tree.MaxPath {
		path = path[:tree.MaxPath]
	}
	return strings.ToValidUTF8(path, "\ufffd")
}
