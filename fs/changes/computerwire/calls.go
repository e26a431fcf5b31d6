package computerwire

import (
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// WatermarksInput is the argument of sync.watermarks, which may be missing.
type WatermarksInput struct {
	Settle bool `json:"settle,omitempty"`
}

// Watermarks is its result.
type Watermarks struct {
	CurrentRev  int64  `json:"currentRev"`
	PushRev     int64  `json:"pushRev"`
	FetchCursor Cursor `json:"fetchCursor"`
}

// WatermarksOf is the form of watermarks.
func WatermarksOf(w changes.Watermarks) Watermarks {
	return Watermarks{w.CurrentRev, w.PushRev, CursorOf(w.Fetch)}
}

// Changes are the watermarks that w stands for.
func (w Watermarks) Changes() changes.Watermarks {
	return changes.Watermarks{CurrentRev: w.CurrentRev, PushRev: w.PushRev, Fetch: w.FetchCursor.Tree()}
}

// PushInput is the argument of sync.push.
type PushInput struct {
	SenderRev    int64                 `json:"senderRev"`
	SenderCursor *Cursor               `json:"senderCursor,omitempty"`
	Changes      capnweb.Stream[Entry] `json:"changes"`
}

// PushInputOf is the form of what goes with a push.
func PushInputOf(in changes.PushInput, entries capnweb.Stream[Entry]) PushInput {
	return PushInput{in.SenderRev, cursorPointer(in.Cursor), entries}
}

// Input is what goes with the push that in stands for.
func (in PushInput) Input() changes.PushInput {
	return changes.PushInput{SenderRev: in.SenderRev, Cursor: treePointer(in.SenderCursor)}
}

// PushResult is the result of sync.push.
type PushResult struct {
	Rev               int64  `json:"rev"`
	Applied           int    `json:"applied"`
	AppliedPushCursor Cursor `json:"appliedPushCursor"`
	// Before is an addition of ours.
	Before int64 `json:"before,omitempty"`
}

// PushResultOf is the form of a result.
func PushResultOf(r changes.PushResult) PushResult {
	return PushResult{r.Rev, r.Applied, CursorOf(r.AppliedPushCursor), r.Before}
}

// Changes is the result that r stands for.
func (r PushResult) Changes() changes.PushResult {
	return changes.PushResult{Rev: r.Rev, Applied: r.Applied, AppliedPushCursor: r.AppliedPushCursor.Tree(), Before: r.Before}
}

// FetchQuery is the argument of sync.fetchChanges.
type FetchQuery struct {
	After   *Cursor `json:"after,omitempty"`
	Through *Cursor `json:"through,omitempty"`
	// Ignore tells a list that is missing from one that is empty.
	Ignore *[]string `json:"ignore,omitempty"`
}

// FetchQueryOf is the form of a query.
func FetchQueryOf(q changes.FetchQuery) FetchQuery {
	out := FetchQuery{After: cursorPointer(&q.After), Through: cursorPointer(q.Through)}
	if q.Ignore != nil {
		out.Ignore = &q.Ignore
	}
	return out
}

// Changes is the query that q stands for.
func (q FetchQuery) Changes() changes.FetchQuery {
	out := changes.FetchQuery{Through: treePointer(q.Through)}
	if q.After != nil {
		out.After = q.After.Tree()
	}
	if q.Ignore != nil {
		out.Ignore = append([]string{}, *q.Ignore...)
	}
	return out
}

// FetchResult is the result of sync.fetchChanges.
type FetchResult struct {
	CurrentCursor     Cursor                `json:"currentCursor"`
	AppliedPushCursor Cursor                `json:"appliedPushCursor"`
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
func (q PackQuery) Changes() changes.PackQuery {
	return changes.PackQuery{FetchQuery: q.FetchQuery.Changes(), MaxEntries: q.MaxEntries, MaxBytes: q.MaxBytes, Generation: q.Generation}
}

// PackResult is the result of sync.fetchChangePack.
type PackResult struct {
	Cursor            Cursor                 `json:"cursor"`
	Drained           bool                   `json:"drained"`
	EntryCount        int                    `json:"entryCount"`
	AppliedPushCursor Cursor                 `json:"appliedPushCursor"`
	Stream            capnweb.Stream[[]byte] `json:"stream"`
}

// ApplyInput is the argument of sync.applyChangePack.
type ApplyInput struct {
	Generation string                 `json:"generation"`
	Stream     capnweb.Stream[[]byte] `json:"stream"`
}

// ApplyResult is its result.
type ApplyResult struct {
	AppliedPushCursor Cursor `json:"appliedPushCursor"`
	Applied           int    `json:"applied"`
	EntryCount        int    `json:"entryCount"`
}
