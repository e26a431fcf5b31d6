package protocol

// Every Path below is a file URI. Every Sandbox is optional; see Sandbox.

// ReadFileParams reads a whole file.
type ReadFileParams struct {
	Path           string   `json:"path"`
	FollowSymlinks *bool    `json:"followSymlinks,omitempty" wire:"nullable"` // default true
	Sandbox        *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
	// IncludeHash (additive, fsConditionalWrites) asks for the content's hash.
	IncludeHash *bool `json:"includeHash,omitempty" wire:"nullable"`
}

// ReadFileResult is a file's content.
type ReadFileResult struct {
	DataBase64 []byte `json:"dataBase64"`
	// Hash is "sha256:" and 64 hex digits, when asked for.
	Hash string `json:"hash,omitempty" wire:"optional"`
}

// WriteFileParams replaces a file atomically, or creates it.
type WriteFileParams struct {
	Path           string   `json:"path"`
	DataBase64     []byte   `json:"dataBase64"`
	FollowSymlinks *bool    `json:"followSymlinks,omitempty" wire:"nullable"` // default true
	Sandbox        *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
	// IfMatch (additive, fsConditionalWrites) is the hash the file must have now.
	IfMatch *string `json:"ifMatch,omitempty" wire:"nullable"`
	// IfNoneMatch (additive) must be "*": the file must not exist.
	IfNoneMatch *string `json:"ifNoneMatch,omitempty" wire:"nullable"`
	// IncludeHash (additive) asks for the hash of what was written.
	IncludeHash *bool `json:"includeHash,omitempty" wire:"nullable"`
	// Mode (additive) is the permission bits of a file that is created, less the
	// umask; 0666 when absent.
	Mode *uint32 `json:"mode,omitempty" wire:"nullable"`
}

// WriteFileResult answers fs/writeFile.
type WriteFileResult struct {
	Hash string `json:"hash,omitempty" wire:"optional"`
}

// CreateDirectoryParams makes a directory.
type CreateDirectoryParams struct {
	Path           string   `json:"path"`
	Recursive      *bool    `json:"recursive,omitempty" wire:"nullable"`      // default true
	FollowSymlinks *bool    `json:"followSymlinks,omitempty" wire:"nullable"` // default true
	Sandbox        *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// GetMetadataParams asks what a path is.
type GetMetadataParams struct {
	Path           string   `json:"path"`
	FollowSymlinks *bool    `json:"followSymlinks,omitempty" wire:"nullable"` // default true
	Sandbox        *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
	// IncludeHash (additive, fsConditionalWrites) asks for a regular file's hash.
	IncludeHash *bool `json:"includeHash,omitempty" wire:"nullable"`
}

// Metadata describes a path. Kind and size are those of a link's target;
// IsSymlink tells of the path itself.
type Metadata struct {
	IsDirectory  bool   `json:"isDirectory"`
	IsFile       bool   `json:"isFile"`
	IsSymlink    bool   `json:"isSymlink"`
	Size         uint64 `json:"size"`
	CreatedAtMs  int64  `json:"createdAtMs"` // Unix time, 0 when unknown
	ModifiedAtMs int64  `json:"modifiedAtMs"`
	// Mode (additive) is the permission bits with setuid, setgid and sticky, as in
	// chmod(2).
	Mode uint32 `json:"mode" wire:"optional"`
	Hash string `json:"hash,omitempty" wire:"optional"`
}

// PathParams names a path.
type PathParams struct {
	Path    string   `json:"path"`
	Sandbox *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// PathResult is a path.
type PathResult struct {
	Path string `json:"path"`
}

// ReadDirectoryParams lists a directory.
type ReadDirectoryParams struct {
	Path    string   `json:"path"`
	Sandbox *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
	// IncludeMetadata (additive) asks for each entry's Metadata, and lists dangling
	// links too.
	IncludeMetadata *bool `json:"includeMetadata,omitempty" wire:"nullable"`
}

// ReadDirectoryResult lists a directory, unsorted.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry `json:"entries"`
}

// DirectoryEntry is one name in a directory; its kind is that of a link's target.
type DirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
	// Path (additive) is the entry's URI, present when its name is not valid UTF-8
	// and FileName therefore does not tell it.
	Path     string    `json:"path,omitempty" wire:"optional"`
	Metadata *Metadata `json:"metadata,omitempty" wire:"nullable"`
}

// WalkParams lists a tree, breadth first.
type WalkParams struct {
	Path    string      `json:"path"`
	Options WalkOptions `json:"options"`
	Sandbox *Sandbox    `json:"sandbox,omitempty" wire:"nullable"`
}

// WalkOptions bound a walk.
type WalkOptions struct {
	MaxDepth                uint64 `json:"maxDepth"`
	MaxDirectories          uint64 `json:"maxDirectories"`
	MaxEntries              uint64 `json:"maxEntries"`
	FollowDirectorySymlinks bool   `json:"followDirectorySymlinks"`
	PruneHiddenDirectories  bool   `json:"pruneHiddenDirectories" wire:"optional"`
}

// WalkResult answers fs/walk.
type WalkResult struct {
	Entries   []WalkEntry `json:"entries"`
	Errors    []WalkError `json:"errors"`
	Truncated bool        `json:"truncated"`
}

// WalkEntry is a file or directory; Kind is "file" or "directory".
type WalkEntry struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// WalkError is a directory that could not be read.
type WalkError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// RemoveParams removes a path.
type RemoveParams struct {
	Path           string   `json:"path"`
	Recursive      *bool    `json:"recursive,omitempty" wire:"nullable"`      // default true
	Force          *bool    `json:"force,omitempty" wire:"nullable"`          // default true
	FollowSymlinks *bool    `json:"followSymlinks,omitempty" wire:"nullable"` // default true
	Sandbox        *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// CopyParams copies a file, a link or a tree.
type CopyParams struct {
	SourcePath      string   `json:"sourcePath"`
	DestinationPath string   `json:"destinationPath"`
	Recursive       bool     `json:"recursive"`
	Sandbox         *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// Modes of fs/open.
const (
	OpenRead    = "read"
	OpenReplace = "replace"
)

// OpenParams opens a block stream.
type OpenParams struct {
	HandleID string   `json:"handleId"` // chosen by the caller, at most 32 bytes
	Path     string   `json:"path"`
	Mode     string   `json:"mode,omitempty" wire:"optional"` // default "read"
	Sandbox  *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
	// IfMatch, IfNoneMatch (additive, fsConditionalWrites) as in WriteFileParams,
	// checked when a "replace" stream is closed.
	IfMatch     *string `json:"ifMatch,omitempty" wire:"nullable"`
	IfNoneMatch *string `json:"ifNoneMatch,omitempty" wire:"nullable"`
	// FileMode (additive) as Mode in WriteFileParams.
	FileMode *uint32 `json:"fileMode,omitempty" wire:"nullable"`
}

// OpenResult answers fs/open.
type OpenResult struct {
	HandleID string `json:"handleId"`
}

// ReadBlockParams reads a block.
type ReadBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Len      uint64 `json:"len"` // 1 to MaxBlockBytes
}

// ReadBlockResult is a block; EOF is true when it is shorter than asked for.
type ReadBlockResult struct {
	Chunk []byte `json:"chunk"`
	EOF   bool   `json:"eof"`
}

// WriteBlockParams writes a block.
type WriteBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Chunk    []byte `json:"chunk"` // 1 to MaxBlockBytes bytes
}

// CloseHandleParams ends a block stream; closing a "replace" stream puts the new
// content in place.
type CloseHandleParams struct {
	HandleID string `json:"handleId"`
	// Discard (additive, fsAtomicWrites) drops what a "replace" stream wrote.
	Discard *bool `json:"discard,omitempty" wire:"nullable"`
}

// WatchMissingParams waits for paths that do not exist.
type WatchMissingParams struct {
	WatchID uint64   `json:"watchId"`
	Missing []string `json:"missing"`
	Present *string  `json:"present" wire:"nullable"`
}

// WatchMissingResult says whether a watch was set.
type WatchMissingResult struct {
	Watching bool `json:"watching"`
}

// MissingChangedParams is the fs/missingChanged notification.
type MissingChangedParams struct {
	WatchID uint64 `json:"watchId"`
}

// RenameParams (additive) renames within one file system.
type RenameParams struct {
	SourcePath      string `json:"sourcePath"`
	DestinationPath string `json:"destinationPath"`
	// Overwrite, default true, lets the rename replace what is there.
	Overwrite *bool    `json:"overwrite,omitempty" wire:"nullable"`
	Sandbox   *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// SymlinkParams (additive) makes a symbolic link at Path.
type SymlinkParams struct {
	Path string `json:"path"`
	// Target is the link's text, not a URI; TargetBase64 gives it as bytes instead.
	Target       *string  `json:"target,omitempty" wire:"nullable"`
	TargetBase64 *Bytes   `json:"targetBase64,omitempty" wire:"nullable"`
	Sandbox      *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}

// ReadLinkResult (additive) is a link's text.
type ReadLinkResult struct {
	Target string `json:"target"`
	// TargetBase64 is present when the text is not valid UTF-8.
	TargetBase64 Bytes `json:"targetBase64,omitempty" wire:"optional"`
}

// ChmodParams (additive) sets permission bits, following links.
type ChmodParams struct {
	Path    string   `json:"path"`
	Mode    uint32   `json:"mode"` // 0 to 07777
	Sandbox *Sandbox `json:"sandbox,omitempty" wire:"nullable"`
}
