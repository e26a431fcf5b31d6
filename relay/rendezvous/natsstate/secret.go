package natsstate

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// A Secret does not show itself in logs, error texts or JSON.
type Secret string

// String hides it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides it from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue hides it from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides it from encoders, also within a struct.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// readSecret reads a secret that is the one line of a file.
func readSecret(path string) (Secret, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%s does not hold one line with a password", path)
	}
	return Secret(text), nil
}
