package computer

import (
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// nameExec is the class of errors about runs. Most clients keep the code only.
const nameExec = "ExecError"

func invalidf(format string, args ...any) error {
	return &capnweb.Error{Name: nameExec, Code: capnweb.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// mapError turns an error of the peer or the runs into what a client is told; nil leaves
// it to package capnweb, which tells the client its own errors again.
func mapError(err error) *capnweb.Error {
	if _, known := errors.AsType[*capnweb.Error](err); known {
		return nil
	}
	code := changes.Code(err)
	if code == "" {
		if e, ok := errors.AsType[*protocol.NamedError](err); ok {
			return &capnweb.Error{Name: nameExec, Code: e.Code, Message: e.Message}
		}
		return nil
	}
	out := &capnweb.Error{Name: changes.Name(err), Code: code, Message: err.Error()}
	if path := changes.Path(err); path != "" {
		out.Props = capnweb.Object{{Name: "path", Value: path}}
	}
	return out
}
