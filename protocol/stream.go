package protocol

import "github.com/wsd-dev/wsd/protocol/wire"

// A stream (additive) is a part of a result, or of parameters, that is sent item by item
// after the message that names it. Its writer chooses the id, which no other stream has
// that it writes on the connection, and sends stream/items and one stream/end. It sends
// as long as it has credit, which the reader gives with stream/credit. A reader that
// wants no more sends stream/cancel; what is still on its way is dropped then, and the
// end need not come. Notifications for streams that are not there, or no longer, are
// dropped on both sides.

// StreamRef names a stream in a result. Its credit is the window of the request.
type StreamRef struct {
	StreamID string `json:"streamId"`
}

// StreamParam is a stream in parameters: the id of one that begins without credit, or, of
// one that is short, all items.
type StreamParam struct {
	StreamID *string    `json:"streamId,omitempty" wire:"nullable"`
	Items    *wire.List `json:"items,omitempty" wire:"nullable"`
}

// StreamItemsParams is the stream/items notification.
type StreamItemsParams struct {
	StreamID string `json:"streamId"`
	// Items is a list of what the stream is of.
	Items wire.BorrowedList `json:"items"`
	// Bytes is how much credit it takes: the length of the text of Items.
	Bytes int64 `json:"bytes" wire:"optional"`
}

// StreamEndParams is the stream/end notification.
type StreamEndParams struct {
	StreamID string      `json:"streamId"`
	Error    *NamedError `json:"error,omitempty" wire:"nullable"`
}

// StreamCreditParams is the stream/credit notification.
type StreamCreditParams struct {
	StreamID string `json:"streamId"`
	// Bytes is how much more the writer may send. It may send a message while it has any
	// credit left, so that one item can be longer.
	Bytes int64 `json:"bytes"`
}

// StreamCancelParams is the stream/cancel notification.
type StreamCancelParams struct {
	StreamID string      `json:"streamId"`
	Error    *NamedError `json:"error,omitempty" wire:"nullable"`
}
