// Package fileuri turns the file URIs of the wire into paths of this host and back.
//
// A URI is read as a WHATWG URL, as the peers of the exec-server wire do, with the
// exceptions that keep one URI from silently naming another file than its sender
// meant: a query, a fragment, a broken escape, a NUL, an escaped slash, a relative
// path and a foreign host are refused. Paths are bytes: what is not valid UTF-8 is
// escaped byte by byte.
//
// For every absolute path p without NUL, Path(Format(p)) is p, lexically cleaned.
//
// All functions are safe for concurrent use.
package fileuri
