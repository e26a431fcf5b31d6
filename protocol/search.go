package protocol

// GlobParams (additive) finds paths by pattern below Path.
type GlobParams struct {
	Path string `json:"path"`
	// Pattern is relative to Path: *, ?, [a-z], {a,b} within a name, ** for any
	// number of directories.
	Pattern string `json:"pattern"`
	// Exclude are patterns whose matches are left out and, when directories, not
	// entered.
	Exclude []string `json:"exclude,omitempty" wire:"nullable"`
	// IncludeHidden, default true, matches names that begin with a dot.
	IncludeHidden *bool `json:"includeHidden,omitempty" wire:"nullable"`
	// RespectGitignore, default false, leaves out what .gitignore files name.
	RespectGitignore *bool    `json:"respectGitignore,omitempty" wire:"nullable"`
	MaxResults       *uint64  `json:"maxResults,omitempty" wire:"nullable"` // default and most MaxWalkEntries
	Sandbox          *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// GlobResult is sorted by path, bytewise.
type GlobResult struct {
	Entries   []WalkEntry `json:"entries"` // Kind may also be "symlink" or "other"
	Truncated bool        `json:"truncated"`
}

// GrepParams (additive) searches files below Path, or the file Path, for lines.
type GrepParams struct {
	Path string `json:"path"`
	// Pattern is an RE2 expression; with FixedString it is plain text.
	Pattern     string `json:"pattern"`
	FixedString *bool  `json:"fixedString,omitempty" wire:"nullable"`
	IgnoreCase  *bool  `json:"ignoreCase,omitempty" wire:"nullable"`
	// Include and Exclude are glob patterns for the files searched.
	Include []string `json:"include,omitempty" wire:"nullable"`
	Exclude []string `json:"exclude,omitempty" wire:"nullable"`
	// IncludeHidden, default false, and RespectGitignore, default true, as grepping
	// tools have them.
	IncludeHidden    *bool    `json:"includeHidden,omitempty" wire:"nullable"`
	RespectGitignore *bool    `json:"respectGitignore,omitempty" wire:"nullable"`
	MaxMatches       *uint64  `json:"maxMatches,omitempty" wire:"nullable"`   // default 1,000, most MaxWalkEntries
	MaxFileBytes     *uint64  `json:"maxFileBytes,omitempty" wire:"nullable"` // larger files are skipped; default 64 MiB
	Sandbox          *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// GrepResult is sorted by path, then by line. Binary files are skipped.
type GrepResult struct {
	Matches   []GrepMatch `json:"matches"`
	Errors    []WalkError `json:"errors"`
	Truncated bool        `json:"truncated"`
	// FilesSearched and FilesSkipped (binary, too large) count regular files.
	FilesSearched uint64 `json:"filesSearched"`
	FilesSkipped  uint64 `json:"filesSkipped"`
}

// GrepMatch is a line with at least one match.
type GrepMatch struct {
	Path   string `json:"path"`
	Line   uint64 `json:"line"`   // from 1
	Column uint64 `json:"column"` // from 1, in bytes, of the first match
	// Text is the line without its end, bytes that are not UTF-8 replaced, and cut
	// after 4,096 bytes.
	Text string `json:"text"`
}

// WatchParams (additive) reports changes below Path until fs/unwatch or the end
// of the connection. That Path itself is removed is reported too, and a directory that
// comes in its place is watched; if what it is in goes as well, nothing more is reported.
type WatchParams struct {
	WatchID   string   `json:"watchId"` // chosen by the caller
	Path      string   `json:"path"`
	Recursive *bool    `json:"recursive,omitempty" wire:"nullable"` // default true
	Exclude   []string `json:"exclude,omitempty" wire:"nullable"`   // glob patterns not reported nor entered
	Sandbox   *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// WatchResult answers fs/watch once every directory is watched: a change made
// after the answer is reported.
type WatchResult struct {
	Directories uint64 `json:"directories"`
}

// UnwatchParams ends a watch; an unknown id is not an error.
type UnwatchParams struct {
	WatchID string `json:"watchId"`
}

// Kinds of change.
const (
	ChangeCreated  = "created"
	ChangeModified = "modified"
	ChangeRemoved  = "removed"
)

// ChangedParams is the fs/changed notification. Changes of one path within a short
// time are reported once. Overflow means that changes were lost: look at the tree
// again.
type ChangedParams struct {
	WatchID  string       `json:"watchId"`
	Changes  []PathChange `json:"changes"`
	Overflow bool         `json:"overflow"`
}

// PathChange is a path and what happened to it last.
type PathChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}
