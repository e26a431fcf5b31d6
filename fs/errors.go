package fs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// wireError gives err the code and text of the wire. System errors are told by the
// system's text and number, without paths: -32004 when something is missing, -32600
// when it is forbidden or makes no sense, else -32603.
func wireError(err error) error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*protocol.Error](err); ok {
		return failure
	}
	if failure, ok := errors.AsType[*fileuri.Error](err); ok {
		if failure.Kind == fileuri.Foreign {
			return protocol.Errorf(protocol.CodeInvalidRequest, "%s", failure.Reason)
		}
		return protocol.InvalidParams("%s", failure.Reason)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return protocol.Errorf(codeOf(errno), "%s", systemText(errno))
	}
	return protocol.Errorf(protocol.CodeInternal, "%v", err)
}

func codeOf(errno syscall.Errno) protocol.Code {
	switch errno {
	case syscall.ENOENT:
		return protocol.CodeNotFound
	case syscall.EACCES, syscall.EPERM, syscall.EINVAL:
		return protocol.CodeInvalidRequest
	}
	return protocol.CodeInternal
}

// systemText is the text of errno as the original, a musl build, has it.
func systemText(errno syscall.Errno) string {
	var text string
	switch errno {
	case syscall.ELOOP:
		text = "Symbolic link loop"
	case syscall.ENAMETOOLONG:
		text = "Filename too long"
	default:
		text = errno.Error()
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return fmt.Sprintf("%s (os error %d)", text, int(errno))
}

// errorText is what err says on the wire.
func errorText(err error) string { return wireError(err).Error() }

func refused(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
}

// notAFile is the error for paths that must name a regular file and do not.
func notAFile(path string) error { return refused("path `%s` is not a file", path) }

func isErrno(err error, errno syscall.Errno) bool { return errors.Is(err, errno) }
