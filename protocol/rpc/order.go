package rpc

// maxClaims bounds the lanes that one request may take part in.
const maxClaims = 4

// Order says which of the requests that arrived before it a request waits for. Requests
// without a lane in common never wait for each other.
type Order struct {
	inline bool
	quick  bool
	urgent bool
	count  int
	claims [maxClaims]claim
}

// A claim is what a request wants of one lane.
type claim struct {
	lane string
	// alone waits for every holder of the lane, else only for those that are alone.
	alone bool
	// passing holds the lane not at all: nothing that arrives later waits for it.
	passing bool
	// overtakes does not wait for a holder that is held up by other lanes or has no place.
	overtakes bool
}

var (
	// Concurrent requests wait for nothing but a free place.
	Concurrent = Order{}
	// Inline requests run on the reading goroutine, before anything that arrived
	// later is looked at. They must not block.
	Inline = Order{inline: true}
)

// Serial requests of a lane run one at a time, in the order of arrival.
func Serial(lane string) Order { return claimed(claim{lane: lane, alone: true}) }

// Overtaking requests are Serial ones that do not wait for those before them which are held
// up: by another lane that they are Behind or BehindAll in, or for want of a place. They are
// Urgent, as are then those that they do wait for. Those behind them keep their order to all.
func Overtaking(lane string) Order {
	return Urgent(claimed(claim{lane: lane, alone: true, overtakes: true}))
}

// Shared requests of a lane run beside each other, but not beside Serial ones of the
// same lane, and in the order of arrival relative to those.
func Shared(lane string) Order { return claimed(claim{lane: lane}) }

// Behind requests wait for the Serial ones of a lane that arrived before them. Nothing
// waits for a Behind request.
func Behind(lane string) Order { return claimed(claim{lane: lane, passing: true}) }

// BehindAll requests wait for the Serial and Shared ones of a lane that arrived before
// them. Nothing waits for a BehindAll request.
func BehindAll(lane string) Order { return claimed(claim{lane: lane, alone: true, passing: true}) }

func claimed(c claim) Order { return Order{count: 1, claims: [maxClaims]claim{c}} }

// And is the Order of a request that waits for all that either o or another Order waits
// for. It panics when there are too many lanes.
func (o Order) And(others ...Order) Order {
	for i := range others {
		other := &others[i]
		o.quick = o.quick || other.quick
		o.urgent = o.urgent || other.urgent
		o.count += copy(o.claims[o.count:maxClaims:maxClaims][:other.count], other.claims[:other.count])
	}
	return o
}

// Quick is o for requests that are over soon: when nothing else runs they do so on the
// reading goroutine, which saves waking another. One that takes longer than it should,
// or calls Async, holds nothing up: what arrives meanwhile is read by another goroutine.
func Quick(o Order) Order {
	o.quick = !o.inline
	return o
}

// Urgent is o for requests that have a few places of their own: they run although others,
// which may never end, have all the rest.
func Urgent(o Order) Order {
	o.urgent = true
	return o
}

// Always is the Order function of a method whose requests all have one order.
func Always[P any](o Order) func(*P) Order {
	return func(*P) Order { return o }
}
