package process

import (
	"fmt"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// systemText words a failure of the system as the wire does: the system's text and
// the number.
func systemText(errno syscall.Errno) string {
	text := errno.Error()
	first, size := utf8.DecodeRuneInString(text)
	return fmt.Sprintf("%c%s (os error %d)", unicode.ToUpper(first), text[size:], int(errno))
}
