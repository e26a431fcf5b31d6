package protocol

// WatermarksParams asks how far the server is.
type WatermarksParams struct {
	// Settle has what changed on disk put into the tree first.
	Settle bool `json:"settle,omitempty" wire:"optional"`
	// AnyNames: paths and targets stand for names of any bytes, as in fs/rawname. Absent: they are
	// what they are, and what is not UTF-8 is left out.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// WatermarksResult answers sync/watermarks.
type WatermarksResult struct {
	CurrentRev  int64  `json:"currentRev"`
	PushRev     int64  `json:"pushRev"`
	FetchCursor Cursor `json:"fetchCursor"`
	// ChecksBase: sync/push looks at its base. Absent if it does not.
	ChecksBase bool `json:"checksBase,omitempty" wire:"optional"`
	// SetsTimes: sync/push looks at its times. Absent if it does not.
	SetsTimes bool `json:"setsTimes,omitempty" wire:"optional"`
	// ChecksAlone: sync/push looks at its alone. Absent if it does not.
	ChecksAlone bool `json:"checksAlone,omitempty" wire:"optional"`
	// AnyNames: the server looks at the member of that name. Absent if it does not.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
	// Lost is the greatest id of sync/lost so far, absent before there is any.
	Lost int64 `json:"lost,omitempty" wire:"optional"`
	// Skipped are the paths that the server's disk and its tree do not have in common.
	Skipped []SkippedPaths `json:"skipped,omitempty" wire:"optional"`
}

// SkippedPaths are the paths that are left out for one reason.
type SkippedPaths struct {
	Why   string        `json:"why"` // "unwritten", "unreadable", "special", "name"
	Count int           `json:"count"`
	Paths []SkippedPath `json:"paths"` // the first of them
}

// SkippedPath is a path that is left out. Without anyNames bytes of it that are not UTF-8 are
// written as \xe9.
type SkippedPath struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty" wire:"optional"` // what the system said
}

// HashesParams names objects by the hexadecimal digits of their SHA-256.
type HashesParams struct {
	Hashes []string `json:"hashes"`
}

// HasObjectsResult answers sync/hasObjects: the hashes that are held, in the order of the
// question.
type HasObjectsResult struct {
	Hashes []string `json:"hashes"`
}

// FetchObjectsParams asks for objects.
type FetchObjectsParams struct {
	Hashes []string `json:"hashes"`
	Window *int64   `json:"window,omitempty" wire:"nullable"` // of the stream
}

// StreamResult is the result of methods that return a stream alone.
type StreamResult struct {
	Stream StreamRef `json:"stream"`
}

// SyncObject is the content of a hash, one item of the streams of sync/fetchObjects and
// sync/pushObjects.
type SyncObject struct {
	Hash  string `json:"hash"`
	Bytes []byte `json:"bytes"`
	// Last: no other window of the same file follows. Of objects of less than 512 KiB, and by ends
	// that do not say so, it is absent.
	Last bool `json:"last,omitempty" wire:"optional"`
}

// PushObjectsParams gives objects, a stream of SyncObject.
type PushObjectsParams struct {
	Objects StreamParam `json:"objects"`
}

// PushParams gives entries, a stream of ChangeEntry.
type PushParams struct {
	SenderRev    int64       `json:"senderRev"`
	SenderCursor *Cursor     `json:"senderCursor,omitempty" wire:"nullable"`
	Changes      StreamParam `json:"changes"`
	// Base is how far the sender has seen the server's changes: entries of paths that have
	// changed since are not applied, but named. Absent: all entries are applied.
	Base *Cursor `json:"base,omitempty" wire:"nullable"`
	// Ignore are names that the sender leaves alone: what has one stays in a directory that
	// an entry removes.
	Ignore []string `json:"ignore,omitempty" wire:"optional"`
	// Partly: the sender reads of sync/watermarks which entries could not be written to the
	// disk, so that the push does not fail because of them, nor for want of room.
	Partly bool `json:"partly,omitempty" wire:"optional"`
	// Times: an entry of a file that is the same but for its time sets the time.
	Times bool `json:"times,omitempty" wire:"optional"`
	// Alone: the push is refused with EUNSEEN if any file or link of the server's has changed
	// since Base.
	Alone bool `json:"alone,omitempty" wire:"optional"`
	// AnyNames is as that of WatermarksParams.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// PushResult answers sync/push.
type PushResult struct {
	Rev               int64  `json:"rev"`
	Applied           int    `json:"applied"`
	AppliedPushCursor Cursor `json:"appliedPushCursor"`
	// Before is the revision before the push, absent if the server does not know.
	Before int64 `json:"before,omitempty" wire:"optional"`
	// Conflicts are the paths of entries that were not applied because of the base.
	Conflicts []string `json:"conflicts,omitempty" wire:"optional"`
	// Overtaken are versions that were on the server's disk, unseen, when an entry took
	// their place, and OvertakenMore how many more there are, which sync/lost lists.
	Overtaken     []LostVersion `json:"overtaken,omitempty" wire:"optional"`
	OvertakenMore int           `json:"overtakenMore,omitempty" wire:"optional"`
	// Kept are paths that entries were to remove, and that stay with what was never
	// synchronised, and KeptMore how many more there are.
	Kept     []KeptPath `json:"kept,omitempty" wire:"optional"`
	KeptMore int        `json:"keptMore,omitempty" wire:"optional"`
	// Disowned are files that were replaced and whose owner or group the server may not keep,
	// and DisownedMore how many more there are.
	Disowned     []string `json:"disowned,omitempty" wire:"optional"`
	DisownedMore int      `json:"disownedMore,omitempty" wire:"optional"`
	// Unwritten are the paths of entries that are not on the server's disk yet, and UnwrittenMore
	// how many more there are. Only a push with Partly has them.
	Unwritten     []string `json:"unwritten,omitempty" wire:"optional"`
	UnwrittenMore int      `json:"unwrittenMore,omitempty" wire:"optional"`
}

// KeptPath is a path that stays although it was to be removed.
type KeptPath struct {
	Path  string   `json:"path"`
	Names []string `json:"names"`                          // first of the paths that hold it up
	More  int      `json:"more,omitempty" wire:"optional"` // how many there are beside
}

// LostVersion is a version of a file or link that something has taken the place of. Its
// content can be fetched as long as it is kept.
type LostVersion struct {
	ID  int64        `json:"id"` // later ones are greater
	At  Milliseconds `json:"at"`
	Why string       `json:"why"` // "overtaken" or "conflict"
	// By identifies what took its place, like prior of a delete; absent for nothing.
	By    string      `json:"by,omitempty" wire:"optional"`
	Entry ChangeEntry `json:"entry"`
}

// LostParams asks for the versions that the server keeps.
type LostParams struct {
	After int64 `json:"after,omitempty" wire:"optional"` // only greater ids
	Limit int   `json:"limit,omitempty" wire:"optional"` // how many; 0 for as many as there may be
	// AnyNames is as that of WatermarksParams.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// LostResult answers sync/lost, the smallest ids first.
type LostResult struct {
	Versions []LostVersion `json:"versions"`
	More     bool          `json:"more,omitempty" wire:"optional"`
}

// AwaitParams waits for a change.
type AwaitParams struct {
	After int64 `json:"after"` // the revision that is known
	// Lost is the greatest number of a lost version that is known, absent for all that there are.
	Lost int64 `json:"lost,omitempty" wire:"optional"`
}

// AwaitResult answers sync/await: with a greater revision, or with that one after a minute, or once
// a version was lost.
type AwaitResult struct {
	CurrentRev int64 `json:"currentRev"`
}

// FetchChangesParams asks for changes.
type FetchChangesParams struct {
	After   *Cursor `json:"after,omitempty" wire:"nullable"`   // absent: from the beginning
	Through *Cursor `json:"through,omitempty" wire:"nullable"` // absent: to the present
	// Ignore are names that hide paths; absent is the server's list, empty hides nothing.
	Ignore *[]string `json:"ignore,omitempty" wire:"nullable"`
	Window *int64    `json:"window,omitempty" wire:"nullable"` // of the stream
	// AnyNames is as that of WatermarksParams.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// FetchChangesResult answers sync/fetchChanges; the stream is of ChangeEntry.
type FetchChangesResult struct {
	CurrentCursor     Cursor    `json:"currentCursor"`
	AppliedPushCursor Cursor    `json:"appliedPushCursor"`
	Stream            StreamRef `json:"stream"`
}

// ReadEntryParams asks for the state of a path.
type ReadEntryParams struct {
	Path string `json:"path"`
	// AnyNames is as that of WatermarksParams.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// ReadEntryResult answers sync/readEntry; Entry is null if there is, and was, nothing.
type ReadEntryResult struct {
	Entry *ChangeEntry `json:"entry" wire:"nullable"`
}

// FetchChangePackParams asks for changes with their content.
type FetchChangePackParams struct {
	After      *Cursor   `json:"after,omitempty" wire:"nullable"`
	Through    *Cursor   `json:"through,omitempty" wire:"nullable"`
	Ignore     *[]string `json:"ignore,omitempty" wire:"nullable"`
	MaxEntries int       `json:"maxEntries"`
	MaxBytes   int64     `json:"maxBytes"`
	Generation string    `json:"generation"`
	Window     *int64    `json:"window,omitempty" wire:"nullable"` // of the stream
	// AnyNames is as that of WatermarksParams.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// FetchChangePackResult answers sync/fetchChangePack; the stream is of pieces of the
// pack, in base64.
type FetchChangePackResult struct {
	Cursor            Cursor    `json:"cursor"`
	Drained           bool      `json:"drained"`
	EntryCount        int       `json:"entryCount"`
	AppliedPushCursor Cursor    `json:"appliedPushCursor"`
	Stream            StreamRef `json:"stream"`
}

// ApplyChangePackParams gives a pack, a stream of its pieces in base64.
type ApplyChangePackParams struct {
	Generation string      `json:"generation"`
	Pack       StreamParam `json:"pack"`
	// AnyNames is as that of WatermarksParams.
	AnyNames bool `json:"anyNames,omitempty" wire:"optional"`
}

// ApplyChangePackResult answers sync/applyChangePack.
type ApplyChangePackResult struct {
	AppliedPushCursor Cursor `json:"appliedPushCursor"`
	Applied           int    `json:"applied"`
	EntryCount        int    `json:"entryCount"`
}
