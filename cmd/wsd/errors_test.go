package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		name string
		err  error
		code int
		text string
	}{
		{"nothing", nil, 0, ""},
		{"a failure", cause, 1, "Error: cause\n"},
		{"a failure with a hint", withHint(cause, "try this"), 1, "Error: cause\nHint: try this\n"},
		{"usage", usagef("type that", "bad %s", "flag"), 2, "Error: bad flag\nHint: type that\n"},
		{"usage around a failure", usagef("", "%w", cause), 2, "Error: cause\n"},
		{"wrapped usage", fmt.Errorf("x: %w", usagef("h", "y")), 2, "Error: x: y\nHint: h\n"},
		{"silent status", &exitError{code: 7}, 7, ""},
		{"status and text", &exitError{code: 255, err: cause}, 255, "Error: cause\n"},
		{"status and hint", &exitError{code: 255, err: withHint(cause, "h")}, 255, "Error: cause\nHint: h\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			if code := report(&out, tc.err); code != tc.code || out.String() != tc.text {
				t.Errorf("status %d, %q; want %d, %q", code, out.String(), tc.code, tc.text)
			}
		})
	}
}
