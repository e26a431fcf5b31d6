package changes

import (
	"context"
	"iter"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Workspace is a tree with what it stands for: a directory on disk (package fs/disk),
// or nothing more (Plain).
type Workspace interface {
	Forest() *tree.Forest
	Tree() *tree.Tree
	// Settle returns once the tree has all that was on disk when it was called.
	Settle(ctx context.Context) error
	// Stirred returns a channel that is closed once what is on disk may have changed since it
	// was last settled; nil if nobody tells of that.
	Stirred() <-chan struct{}
	// Apply applies entries in one update of the tree, all or none, together with what
	// also then does (nil for nothing), and returns once they can be seen on disk. What is
	// on disk and not yet in the tree is settled before. entries is called in the update,
	// with the tree as it is before them, so that it can decide by what it finds there; what
	// it returns is read once, each entry after the one before it is applied, and must not wait for
	// anything. An error among them fails it.
	//
	// A PendingError says that the entries are in the tree, and not all of them on disk.
	Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (Applied, error)
	// Skipped are the paths that disk and tree do not have in common as of the last Settle or
	// Apply, for each reason. keep leaves out paths of the tree for which it returns false;
	// nil leaves out none. It waits for nothing.
	Skipped(keep func(path string) bool) []Skipped
	// Unread are the files and directories on disk that could not be read at the last Settle or Apply, in
	// no order: files that are not those of the tree, with kind, mode, time and size and without content,
	// directories, in which anything may have changed, and what no tree can have, with the kind 0. It waits
	// for nothing.
	Unread() []tree.Entry
	// NotUTF8 are, of what disk and tree have, the topmost paths whose names are not UTF-8, and
	// links to what is not: ends of before package rawname leave them out. It goes by the last
	// Settle or Apply, and waits for nothing. false says that there may be others.
	NotUTF8(keep func(path string) bool) (Skipped, bool)
}

// A Gradual is a Workspace that can settle some at a time.
type Gradual interface {
	Workspace
	// SettleBy is Settle. If all that it finds is new, and more than so many paths or bytes of files,
	// it takes that into the tree in parts, the files in the directory itself first. After each part
	// but the last it calls some, which must not use the workspace, and goes on when that returns:
	// without calling it any more if that is false, or if something could not be read. The content
	// that it has read is at hand (tree.Forest.Hand), as far as there is room.
	SettleBy(ctx context.Context, paths int, bytes int64, some func() bool) error
}

// An Identifier is a Workspace that can tell a directory from another one of its name.
type Identifier interface {
	Workspace
	// Identity returns a text for the directory that is on disk now for a path of the tree: one that is removed and made
	// again has another text. It is "" if there is none, or the system does not tell.
	Identity(path string) string
}

// Applied is what Workspace.Apply did.
type Applied struct {
	Rev     int64 // of the tree afterwards
	Entries int   // how many there were
	Changed int   // how many of them changed something
	// Overtaken are versions of files and links that were on disk, and nobody had settled,
	// when an entry took their place. They are kept (package lost).
	Overtaken []lost.Version
	// Kept are paths that were to be removed, and stay with what was never synchronised: what
	// nobody had settled yet, what no tree can have.
	Kept []Kept
	// Disowned are paths of files that were replaced and whose owner or group may not be kept.
	Disowned []string
}

// Kept is a path that stays although it was to be removed.
type Kept struct {
	Path  string
	Names []string // first of the paths that hold it up; itself, if it has changed
	More  int      // how many there are beside
}

// expected is how many entries are looked ahead.
const expected = 256

// Expecting yields entries once an edit has looked for what is known of their content, of many at
// once. It reads entries before the ones yielded earlier are applied: what depends on the state of
// the edit goes around it.
func Expecting(e *tree.Edit, entries iter.Seq2[tree.Entry, error]) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		list := make([]tree.Entry, 0, expected)
		pass := func() bool {
			if err := e.Expect(list); err != nil {
				return yield(tree.Entry{}, err)
			}
			for i := range list {
				if !yield(list[i], nil) {
					return false
				}
			}
			list = list[:0]
			return true
		}
		for entry, err := range entries {
			if err != nil {
				if pass() {
					yield(entry, err)
				}
				return
			}
			if list = append(list, entry); len(list) == expected && !pass() {
				return
			}
		}
		pass()
	}
}
