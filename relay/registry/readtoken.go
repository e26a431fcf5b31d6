package registry

import (
	"errors"
	"fmt"
	"io"
)

// ReadToken reads a token from a pipe: one line that ends with a newline, at most
// MaxToken bytes. It reads nothing after the newline, so that the pipe may stay open.
func ReadToken(r io.Reader) (string, error) {
	line := make([]byte, 0, 256)
	var b [1]byte
	for {
		if _, err := io.ReadFull(r, b[:]); errors.Is(err, io.EOF) {
			return "", &CredentialError{"read the token: the input ended before a newline; write the token and a newline"}
		} else if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		if b[0] == '\n' {
			break
		}
		if len(line) == MaxToken {
			return "", &CredentialError{fmt.Sprintf("read the token: the line is longer than %d bytes", MaxToken)}
		}
		line = append(line, b[0])
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return string(line), checkToken(string(line))
}
