package computerwire

import (
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// WatermarksInput is the argument of sync.watermarks, which may be missing.
type WatermarksInput struct {
	Settle bool `json:"settle,omitempty"`
}

// Watermarks is its result.
type Watermarks struct {
	CurrentRev  int64           `json:"currentRev"`
	PushRev     int64           `json:"pushRev"`
	FetchCursor protocol.Cursor `json:"fetchCursor"`
}

// WatermarksOf is the form of watermarks.
func WatermarksOf(w changes.Watermarks) Watermarks {
	return Watermarks{w.CurrentRev, w.PushRev, changes.CursorToWire(w.Fetch)}
}

// Changes are the watermarks that w stands for.
func (w Watermarks) Changes() (changes.Watermarks, error) {
	fetch, err := changes.CursorFromWire(w.FetchCursor)
	return changes.Watermarks{CurrentRev: w.CurrentRev, PushRev: w.PushRev, Fetch: fetch}, err
}

// PushInput is the argument of sync.push.
type PushInput struct {
	SenderRev    int64                 `json:"senderRev"`
	SenderCursor *protocol.Cursor      `json:"senderCursor,omitempty"`
	Changes      capnweb.Stream[Entry] `json:"changes"`
}

// PushInputOf is the form of what goes with a push.
func PushInputOf(in changes.PushInput, entries capnweb.Stream[Entry]) PushInput {
	return PushInput{in.SenderRev, changes.OptionalToWire(in.Cursor), entries}
}

// Input is what goes with the push that in stands for.
func (in PushInput) Input() (changes.PushInput, error) {
	cursor, err := changes.OptionalFromWire(in.SenderCursor)
	return changes.PushInput{SenderRev: in.SenderRev, Cursor: cursor}, err
}

// PushResult is the result of sync.push.
type PushResult struct {
	Rev               int64           `json:"rev"`
	Applied           int             `json:"applied"`
	AppliedPushCursor protocol.Cursor `json:"appliedPushCursor"`
	// Before is an addition of ours.
	Before int64 `json:"before,omitempty"`
}

// PushResultOf is the form of a result.
func PushResultOf(r changes.PushResult) PushResult {
	return PushResult{r.Rev, r.Applied, changes.CursorToWire(r.AppliedPushCursor), r.Before}
}

// Changes is the result that r stands for.
func (r PushResult) Changes() (changes.PushResult, error) {
	applied, err := changes.CursorFromWire(r.AppliedPushCursor)
	return changes.PushResult{Rev: r.Rev, Applied: r.Applied, AppliedPushCursor: applied, Before: r.Before}, err
}

// FetchQuery is the argument of sync.fetchChanges.
type FetchQuery struct {
	After   *protocol.Cursor `json:"after,omitempty"`
	Through *protocol.Cursor `json:"through,omitempty"`
	// Ignore tells a list that is missing from one that is empty.
	Ignore *[]string `json:"ignore,omitempty"`
}

// FetchQueryOf is the form of a query.
func FetchQueryOf(q changes.FetchQuery) (out FetchQuery) {
	out.After, out.Through, out.Ignore = changes.QueryToWire(q)
	return out
}

// Changes is the query that q stands for.
func (q FetchQuery) Changes() (changes.FetchQuery, error) {
	return changes.QueryFromWire(q.After, q.Through, q.Ignore)
}

// FetchResult is the result of sync.fetchChanges.
type FetchResult struct {
	CurrentCursor     protocol.Cursor       `json:"currentCursor"`
	AppliedPushCursor protocol.Cursor       `json:"appliedPushCursor"`
	Stream            capnweb.Stream[Entry] `json:"stream"`
}

// PackQuery is the argument of sync.fetchChangePack.
type PackQuery struct {
	FetchQuery
	MaxEntries int    `json:"maxEntries"`
	MaxBytes   int64  `json:"maxBytes"`
	Generation string `json:"generation"`
}

// PackQueryOf is the form of a query for a pack.
func PackQueryOf(q changes.PackQuery) PackQuery {
	return PackQuery{FetchQueryOf(q.FetchQuery), q.MaxEntries, q.MaxBytes, q.Generation}
}

// Changes is the query that q stands for.
func (q PackQuery) Changes() (changes.PackQuery, error) {
	query, err := q.FetchQuery.Changes()
	return changes.PackQuery{FetchQuery: query, MaxEntries: q.MaxEntries, MaxBytes: q.MaxBytes, Generation: q.Generation}, err
}

// PackResult is the result of sync.fetchChangePack.
type PackResult struct {
	Cursor            protocol.Cursor        `json:"cursor"`
	Drained           bool                   `json:"drained"`
	EntryCount        int                    `json:"entryCount"`
	AppliedPushCursor protocol.Cursor        `json:"appliedPushCursor"`
	Stream            capnweb.Stream[[]byte] `json:"stream"`
}

// ApplyInput is the argument of sync.applyChangePack.
type ApplyInput struct {
	Generation string                 `json:"generation"`
	Stream     capnweb.Stream[[]byte] `json:"stream"`
}
