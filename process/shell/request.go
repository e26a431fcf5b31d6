package shell

import (
	"crypto/rand"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/protocol"
)

// Codes of errors.
const (
	CodeNotFound  = "ENOENT"
	CodeBusy      = "EEXEC_BUSY"
	CodeTruncated = "ELOG_TRUNCATED"
	CodeInvalid   = "EINVAL"
	CodeShutdown  = "ESHUTDOWN"
)

func noRecord(id string) error {
	return protocol.NamedErrorf(CodeNotFound, "no exec record for id %.*s", maxIDBytes, id)
}

// check says what no command can be run with.
func (r *Request) check() error {
	switch {
	case len(r.ID) > maxIDBytes:
		return protocol.NamedErrorf(CodeInvalid, "the id has %d bytes, at most %d are possible", len(r.ID), maxIDBytes)
	case !utf8.ValidString(r.ID) || strings.ContainsRune(r.ID, 0):
		return protocol.NamedErrorf(CodeInvalid, "the id is not text")
	case strings.ContainsRune(r.Command, 0):
		return protocol.NamedErrorf(CodeInvalid, "the command has a NUL character")
	case strings.ContainsRune(r.Cwd, 0):
		return protocol.NamedErrorf(CodeInvalid, "cwd has a NUL character")
	case len(r.Stdin) > maxStdinBytes:
		return protocol.NamedErrorf(CodeInvalid, "stdin has %d bytes, at most %d are possible", len(r.Stdin), maxStdinBytes)
	case r.Timeout != nil && *r.Timeout < 0:
		return protocol.NamedErrorf(CodeInvalid, "the timeout is negative")
	}
	for name, value := range r.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return protocol.NamedErrorf(CodeInvalid, "%.64q cannot be the name of a variable", name)
		case strings.ContainsRune(value, 0):
			return protocol.NamedErrorf(CodeInvalid, "the variable %.64q has a NUL character", name)
		}
	}
	return nil
}

// newID makes a UUID (RFC 9562, version 4).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
