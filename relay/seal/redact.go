package seal

import (
	"fmt"
	"io"
	"log/slog"
)

// opaque is embedded in what holds a secret, so that neither fmt, by any verb, nor slog
// prints it.
type opaque struct{}

const redacted = "[secret]"

// Format implements fmt.Formatter.
func (opaque) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) } //nolint:errcheck // fmt keeps the error

// LogValue implements slog.LogValuer.
func (opaque) LogValue() slog.Value { return slog.StringValue(redacted) }
