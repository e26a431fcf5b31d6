package auth

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is bytes that no log, error or printed value shows.
type Secret []byte

const redacted = "[redacted]"

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Format implements fmt.Formatter for all verbs.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText keeps encoders from showing it.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
