package computer

import (
	"errors"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// peerError is the error of synchronisation that the peer told: with its code, for which
// errors.Is finds those of package tree and io/fs.
func (c *Client) peerError(err error) error {
	e, told := errors.AsType[*capnweb.Error](err)
	if !told || errors.Is(err, ErrLost) {
		return err
	}
	path, _ := e.Props.Get("path").(string)
	return &changes.Error{Code: e.Code, Name: e.Name, Path: path, Err: errors.New(e.Message)}
}

// runError is the error about a run that the peer told.
func (c *Client) runError(err error) error {
	e, told := errors.AsType[*capnweb.Error](err)
	if !told || errors.Is(err, ErrLost) || e.Code == "" {
		return err
	}
	return &protocol.NamedError{Code: e.Code, Message: e.Message}
}

// ownError is what the peer is told of an error of this end, which breaks a stream that
// it reads.
func ownError(err error) *capnweb.Error {
	if _, known := errors.AsType[*capnweb.Error](err); known {
		return nil
	}
	if code := changes.Code(err); code != "" {
		return &capnweb.Error{Name: changes.Name(err), Code: code, Message: err.Error()}
	}
	return nil
}
