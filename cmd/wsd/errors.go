package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/wsd-dev/wsd/fs/rawname"
)

// Exit statuses that mean the same in every command.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// exitError ends wsd with a status of its own.
type exitError struct {
	code int
	err  error // nil: there is nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a command line that cannot be understood. hint says what to type
// instead.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef makes a usageError with a hint.
func usagef(hint, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: hint}
}

// hintedError is a failure that the user can do something about.
type hintedError struct {
	err  error
	hint string
}

func (e *hintedError) Error() string { return e.err.Error() }
func (e *hintedError) Unwrap() error { return e.err }

// withHint adds to err what the user may try.
func withHint(err error, hint string) error { return &hintedError{err, hint} }

// errorText is an error's text, in which paths of a tree are as people read them.
func errorText(err error) string {
	if text := err.Error(); rawname.Has(text) {
		return rawname.Show(text)
	}
	return err.Error()
}

// report prints err for a person and returns the exit status it stands for.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code, hint := exitFailure, ""
	if hinted, ok := errors.AsType[*hintedError](err); ok {
		hint = hinted.hint
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		code, hint = exitUsage, usage.hint
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
		if exit.err == nil {
			return code
		}
	}
	_ = say(w, "Error: %s", errorText(err))
	if hint != "" {
		_ = say(w, "Hint: %s", hint)
	}
	return code
}
