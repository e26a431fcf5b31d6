package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// DefaultPeerID is what the remote is called in the local tree.
const DefaultPeerID = "remote"

// Config says what is kept in step and how. Local and Remote must be set.
type Config struct {
	Local  changes.Workspace
	Remote changes.Peer
	// PeerID is under which name the cursors are stored in the local tree; "" for
	// DefaultPeerID. A tree that is in step with several remotes has one for each.
	PeerID string
	// LocalRoot and RemoteRoot are paths of the two trees that stand for each other; "" for
	// the whole of it. What is outside of them is left alone, and so are the modes and
	// times of the roots themselves.
	LocalRoot, RemoteRoot string
	// Ignore are names, in bytes; paths with one of them are neither sent nor fetched. Those that
	// were synchronised before stay on both sides as they are. Paths that are no longer ignored are compared
	// anew.
	Ignore []string
	// Rules are texts of patterns (package fs/ignore) of what is ignored too, each as a
	// .gitignore in LocalRoot has it. The last pattern that matches decides.
	Rules []string
	// RulesFile is the name of a file in LocalRoot whose patterns count before Rules; "" for
	// none. GitIgnore says that those of the .gitignore files of this side count before both,
	// each below its directory. Files that a pull brings count for that pull.
	RulesFile string
	GitIgnore bool
	// KeepRules has what was ignored the last time be ignored, and nothing else. Ignore, Rules,
	// RulesFile and GitIgnore must be empty.
	KeepRules bool
	// Dir is the directory of this machine that LocalRoot stands for, if any.
	Dir string
	// AllowCode lets names come over that make programs run code, AllowModes the bits 07000
	// of modes (package withheld). Without, the remote's changes of them are withheld:
	// remembered, and neither made here nor undone there. With either, what it had withheld
	// before comes over.
	AllowCode, AllowModes bool
	// OnConflict says what happens to a path that changed on both sides.
	OnConflict Policy
	// Undo makes the remote what is here: what has changed there is not applied here, but
	// sent back as it is here. The remote's versions are kept here (package lost).
	Undo bool
	// Guard, with Hold, sends what has changed here and takes nothing: what the remote has
	// changed is a conflict that is held, whether or not it has changed here too.
	Guard bool
	// First is how two sides are brought together that were never in step, in a word of the
	// caller: as the other fields say. Mirror.First knows it until a call has done so.
	First string
	// Blank says that the remote had nothing (Mirror.Blank) and this side is not to be mixed with
	// anything. Until the remote has taken something, a call fails with ErrNotBlank, and brings and
	// sends no file, if the remote has got files meanwhile.
	Blank bool
	// MayEmpty says that the directory RemoteRoot may be removed at the remote: what was in it goes
	// here too. Else a call fails with a RootError. With Undo it is made again.
	MayEmpty bool
	// MayDelete, if set, is asked before anything is changed whether n files and links may be
	// removed of so many that both sides have, without what is ignored. Else the call fails with a
	// DeletesError. If it lets n of 2n or more go, it must let n of more go.
	MayDelete func(n, of int) bool
	// Removals, if set, has MayDelete asked about what calls remove within a short time, too, of what both
	// sides had before. It is shared by the mirrors of one Local and one Remote.
	Removals *Removals
	// Room, if set, is for how many bytes of content there is room here, if that is known. Plan goes by it for what
	// there was no room for the last time.
	Room func() (bytes int64, known bool)
	// Retries, if set, is shared by the mirrors over one connection, one after the other: none of them
	// tries at once what another one has tried a moment ago.
	Retries *Retries
	// A pull calls OnChange for each path that it has changed here, Conflict for each conflict that was
	// decided, and Withheld for each version that did not come over. A call that has sent paths calls OnSent
	// for each of them when it ends, but for those that the remote could not write. None may use the mirror.
	OnChange func(Change)
	OnSent   func(Move)
	Conflict func(Conflict)
	Withheld func(Withheld)
	// Stayed gets each path that was removed on one side and stays on the other.
	Stayed func(Stayed)
	// Progress is told what has moved. It must not wait.
	Progress func(Progress)
	Logger   *slog.Logger // nil for none
}

// A Progress is what has moved since Connect. What is known of the totals grows.
type Progress struct {
	Pushed, Pulled           int64 // entries
	ToPush, ToPull           int64 // entries that are known to be due, those that moved included
	ObjectsOut, ObjectsIn    int64
	BytesOut, BytesIn        int64
	BytesToPush, BytesToPull int64 // as far as blocks have been looked at
}

// A Result is what a call has moved.
type Result struct {
	Pushed, Pulled int // entries
	Changed        int // of the pulled ones, those that changed something here
	// Same counts the entries of Pushed that the remote had already. It is known only in a call that brings two
	// sides together for the first time, else it is 0.
	Same int
	// Unwritten are those of Pushed that the remote could not write yet, and UnwrittenHere those of
	// Changed that this side could not.
	Unwritten, UnwrittenHere int
	ObjectsOut, ObjectsIn    int
	BytesOut, BytesIn        int64
	Conflicts                int
	Withheld                 int // paths that did not come over, or not all of their modes
	Stayed                   int // paths that stay on one side, with what was never synchronised
	Held                     int // paths that are held in conflict
	Undone                   int // versions of the remote that are kept here, since they were to be undone
	NotUndone                int // those of Undone that are still there, since the remote could not write their paths, or what is here could not be read
	// InStep: both ends had all of each other's changes when the call ended.
	InStep bool
	// Here and There are the paths that this side and the remote leave out, for each reason, as
	// the local tree calls them.
	Here, There []changes.Skipped
	// DisownedHere and DisownedThere are files that were replaced and whose owner or group could
	// not be kept.
	DisownedHere, DisownedThere changes.Skipped
	// Undecided are the paths that Resolve was to decide about and that are held still, sorted.
	Undecided []Undecided
}

func (r *Result) moved() bool {
	return r.Pushed > 0 || r.Changed > 0 || r.Conflicts > 0 || r.Undone > 0
}

func (r *Result) add(o *Result) {
	r.Pushed += o.Pushed
	r.Same += o.Same
	r.Pulled += o.Pulled
	r.Changed += o.Changed
	r.ObjectsOut += o.ObjectsOut
	r.ObjectsIn += o.ObjectsIn
	r.BytesOut += o.BytesOut
	r.BytesIn += o.BytesIn
	r.Conflicts += o.Conflicts
	r.Withheld += o.Withheld
	r.Stayed += o.Stayed
	r.Held = o.Held
	r.Undone += o.Undone
	r.InStep = o.InStep
	r.Here, r.There = o.Here, o.There
	addSkipped(&r.DisownedHere, o.DisownedHere)
	addSkipped(&r.DisownedThere, o.DisownedThere)
}

// A Mirror keeps two ends in step. It owns no goroutine between calls and needs no
// closing. Calls wait for each other. After an error of any of them, the next one goes on
// from what is stored.
type Mirror struct {
	cfg      Config
	log      *slog.Logger
	forest   *tree.Forest
	tree     *tree.Tree
	roots    roots
	meter    meter
	vanished vanished
	limits   limits // those of limits.go; tests have smaller ones
	*Retries

	// turn is held by the call that uses what follows.
	turn     chan struct{}
	s        state
	loaded   bool // s is what is stored
	fresh    bool // the remote's cursors were compared with ours
	policy   Policy
	resolved map[string]Policy // paths that are held in conflict, and resolved now
	// checksBase: a push takes away nothing at the remote that was not pulled. theirLost is
	// the number of the version that it has lost last.
	checksBase bool
	// checksAlone: the remote refuses a push that is to be alone and is not.
	checksAlone bool
	// setsTimes: both ends set the times of files that are the same otherwise.
	setsTimes bool
	// plain: the remote does not know names of any bytes.
	plain     bool
	theirLost int64
	lostLists int               // how many lists of lost versions this call has asked for
	there     []changes.Skipped // what the remote leaves out
	unseen    unseen            // what could not be read here when it was looked at last
	before    beginning         // of the call that is under way
	// leftHere and leftThere are what the last result has of paths that are left out.
	leftHere, leftThere []changes.Skipped
	// found are versions whose content the remote has said to have again, by path.
	found map[string]string
	// codeSeen has a name that makes programs run code by the directory here in which codeGone saw it last.
	codeSeen map[string]string
	heard    *heard // nil if the remote is to be asked how far it is
	asked    pushAsked
	listed   *listed // nil if nothing is
	unsent   int     // files and links here that are new or changed, as mayPush has counted them
	// settledNow: this call has settled this side and found that something is pending.
	// settledBefore: the call before it has.
	settledNow, settledBefore bool
	// filter is what is ignored: by files, as they were at a revision here, and the Config.
	filter   *filter
	planning bool // Plan runs
	files    ruleFiles
	rulesRev int64
	// rulesMoved: files have changed, and the state does not have it yet.
	rulesMoved bool
	// incoming are the files with rules that count since a pull brings them, refused the
	// remote's revisions of the files that the pull did not bring after all.
	incoming map[string]incomingFile
	refused  map[string]int64
	// waiting are files with rules of the remote's for which there is no room here. They count beside those that are here.
	waiting ruleFiles
}

// New returns a mirror. It looks at nothing yet.
func New(cfg Config) *Mirror {
	if cfg.PeerID == "" {
		cfg.PeerID = DefaultPeerID
	}
	m := &Mirror{
		cfg: cfg, log: cfg.Logger, forest: cfg.Local.Forest(), tree: cfg.Local.Tree(),
		roots: newRoots(cfg.LocalRoot, cfg.RemoteRoot), turn: make(chan struct{}, 1), limits: standard, Retries: cfg.Retries,
	}
	if m.Retries == nil {
		m.Retries = &Retries{}
	}
	m.meter.tell = cfg.Progress
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m
}

// An InvariantError says that the remote contradicts itself: what it answered cannot be
// if it applied what it was sent.
type InvariantError struct{ Text string }

// Error says what is wrong.
func (e *InvariantError) Error() string { return "the remote is out of order: " + e.Text }

// Connect compares the cursors of both ends, and begins anew where the remote has lost
// what it had. It must be called for each new connection, and is by the first call on a
// mirror that was not.
func (m *Mirror) Connect(ctx context.Context) error {
	return m.alone(ctx, func() error {
		m.fresh = false
		return m.connect(ctx, false)
	})
}

// Pull applies what changed at the remote.
func (m *Mirror) Pull(ctx context.Context) (Result, error) {
	return m.run(ctx, true, func(ctx context.Context, r *Result) error {
		if err := m.settle(ctx); err != nil {
			return err
		}
		return m.pull(ctx, r)
	})
}

// Push sends the changes from here. A remote that looks (changes.Watermarks.ChecksBase) keeps a
// version of its own that was not pulled: the next pull finds the conflict. Other remotes
// overwrite it.
func (m *Mirror) Push(ctx context.Context) (Result, error) {
	return m.run(ctx, false, func(ctx context.Context, r *Result) error {
		if err := m.settle(ctx); err != nil {
			return err
		}
		err := m.push(ctx, r, false)
		if errors.Is(err, errMoved) {
			err = nil
		}
		return err
	})
}

// Tick pulls and then pushes.
func (m *Mirror) Tick(ctx context.Context) (Result, error) {
	return m.run(ctx, true, func(ctx context.Context, r *Result) error {
		if err := m.tick(ctx, r, true); err != nil {
			return err
		}
		return m.finish(ctx, r)
	})
}

// Sync ticks until nothing moves any more. A remote that never rests is left after some
// rounds; Result.InStep tells.
func (m *Mirror) Sync(ctx context.Context) (Result, error) {
	return m.run(ctx, true, func(ctx context.Context, all *Result) error {
		for moved, n := true, 0; moved && n < maxRounds; n++ {
			var r Result
			err := m.tick(ctx, &r, n > 0 || !m.settledBefore)
			all.add(&r)
			if err != nil {
				return err
			}
			moved = r.moved()
		}
		return m.finish(ctx, all)
	})
}

// settle brings what the directory has into the tree.
func (m *Mirror) settle(ctx context.Context) error {
	return settleError(m.cfg.Local.Settle(ctx))
}

func settleError(err error) error {
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// tick pulls and then pushes. It begins with what is settled, or settles first.
func (m *Mirror) tick(ctx context.Context, r *Result, settle bool) error {
	pushed := false
	defer m.forest.Unhand()
	if settle {
		var err error
		if pushed, err = m.settleSending(ctx, r); err != nil {
			return err
		}
	}
	for attempt := 1; !pushed; attempt++ {
		if attempt > 1 {
			if err := m.settle(ctx); err != nil {
				return err
			}
		}
		if err := m.pull(ctx, r); err != nil {
			return err
		}
		err := m.push(ctx, r, attempt < maxPulls)
		if pushed = err == nil; pushed || errors.Is(err, errMoved) && attempt == maxPulls {
			break
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	if next := m.s; pushed && (next.notes.First != "" || next.notes.Blank) {
		next.notes.First, next.notes.Begun, next.notes.BegunThere, next.notes.Yielded, next.notes.Blank = "", 0, 0, 0, false
		return m.commit(ctx, next)
	}
	return nil
}

// finish finds out how far both ends are. The remote is asked if it was sent something since it
// was asked last.
func (m *Mirror) finish(ctx context.Context, r *Result) error {
	if m.heard == nil {
		if _, err := m.watermarks(ctx, false); err != nil {
			return err
		}
	}
	info, err := m.tree.Info(ctx)
	if err != nil {
		return err
	}
	m.leftHere, m.leftThere = m.here(), m.left()
	r.Here, r.There = m.leftHere, m.leftThere
	if err := m.countUnwritten(ctx, r); err != nil {
		return err
	}
	sent := m.s.peer.Push.Compare(tree.At(info.Rev)) >= 0
	if !sent { // or what is named
		if sent, err = m.onlyWaiting(ctx); err != nil {
			return err
		}
	}
	r.InStep = m.s.peer.Fetch.Compare(tree.At(m.heard.wm.CurrentRev)) >= 0 && sent
	m.looked(unwrittenOf(m.leftHere).Count+unwrittenOf(m.there).Count > 0)
	return nil
}

// run runs a call on a mirror that is connected. settle says that the call looks at what the
// remote has on its disk.
func (m *Mirror) run(ctx context.Context, settle bool, fn func(context.Context, *Result) error) (Result, error) {
	var r Result
	err := m.alone(ctx, func() error {
		m.policy = m.cfg.OnConflict
		return m.connected(ctx, &r, settle, fn)
	})
	return r, err
}

func (m *Mirror) connected(ctx context.Context, r *Result, settle bool, fn func(context.Context, *Result) error) error {
	m.heard, m.vanished.seen, m.lostLists = nil, map[string]gone{}, 0
	if m.full.isDue() {
		m.full.forget()
	}
	if !m.fresh || !m.loaded {
		if err := m.connect(ctx, settle); err != nil {
			return err
		}
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	err := fn(ctx, r)
	m.listed = nil
	m.tellSent()
	if failed, ok := errors.AsType[*ConflictError](err); ok {
		failed.Moved = failed.Moved || r.Pushed > 0 || r.Pulled > 0
	}
	r.Held = m.s.held.conflicts()
	return err
}

// alone runs fn when no other call runs.
func (m *Mirror) alone(ctx context.Context, fn func() error) error {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.turn }()
	m.settledBefore, m.settledNow = m.settledNow, false
	err := fn()
	if err != nil {
		m.loaded = false
		if _, ok := errors.AsType[*ConflictError](err); !ok && ctx.Err() == nil {
			m.fresh = false
		}
	}
	return err
}
