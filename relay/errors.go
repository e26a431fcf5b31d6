package relay

import (
	"fmt"
	"strings"

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

// clip makes somebody's words fit for an error.
func clip(reason string) string {
	const most = 128
	if len(reason) > most {
		reason = reason[:most]
	}
	return strings.ToValidUTF8(reason, "?")
}
