package relay

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// ReasonClosed is the reason of the reset that Close sends. Whoever reads from the stream
// that it ends gets io.EOF.
const ReasonClosed = "closed"

// ErrText is what the Read of a Carrier returns for a text message, which is no frame. The
// carrier can be read on.
var ErrText = wsconn.ErrText

// faultReason is the reason of the reset that stands for a close code.
func faultReason(code int) string {
	switch code {
	case rpc.CloseGoingAway:
		return "going_away"
	case rpc.ClosePolicyViolation:
		return "policy_violation"
	case rpc.CloseTooLarge:
		return "message_too_large"
	default:
		return "fault"
	}
}

// endedError is what a Stream returns once it has ended; it is rpc.ErrClosed.
type endedError struct{ cause error }

func (e *endedError) Error() string   { return fmt.Sprintf("relay stream: %v", e.cause) }
func (e *endedError) Unwrap() []error { return []error{rpc.ErrClosed, e.cause} }

// Clip makes the words of a peer, or of whoever is in between, fit for an error: short,
// and without what a terminal would obey.
func Clip(words string) string {
	const most = 128
	if len(words) > most {
		words = words[:most]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, words)
}
