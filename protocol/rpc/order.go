package rpc

// Order says how the requests of one connection wait for each other. Requests in
// different lanes never do.
type Order struct {
	kind  orderKind
	lane  string
	quick bool
}

type orderKind uint8

const (
	concurrent orderKind = iota
	inline
	serial
	shared
)

var (
	// Concurrent requests wait for nothing but a free place.
	Concurrent = Order{kind: concurrent}
	// Inline requests run on the reading goroutine, before anything that arrived
	// later is looked at. They must not block.
	Inline = Order{kind: inline}
)

// Serial requests of a lane run one at a time, in the order of arrival.
func Serial(lane string) Order { return Order{kind: serial, lane: lane} }

// Shared requests of a lane run beside each other, but not beside Serial ones of the
// same lane, and in the order of arrival relative to those.
func Shared(lane string) Order { return Order{kind: shared, lane: lane} }

// Quick is o for requests that are over soon: when nothing else runs they do so on the
// reading goroutine, which saves waking another. One that takes longer than it should,
// or calls Async, holds nothing up: what arrives meanwhile is read by another goroutine.
func Quick(o Order) Order {
	o.quick = o.kind != inline
	return o
}

// Always is the Order function of a method whose requests all have one order.
func Always[P any](o Order) func(*P) Order {
	return func(*P) Order { return o }
}
