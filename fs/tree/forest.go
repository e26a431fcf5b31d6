package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultName is the name of the tree that there is when nobody asks for another.
const DefaultName = "default"

// names is what a tree may be called, up to 64 bytes of it.
var names = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]{0,63}$`)

// Config says how a Forest works. The zero value does.
type Config struct {
	// Now gives the times that are stored; nil means time.Now.
	Now func() time.Time
	// FirstRev is the revision that a new tree starts with, 0 for one that is above
	// those of any tree there was before: the microseconds since 1970. (Less than one
	// change a microsecond keeps the counter behind the clock, and the clock fits what
	// peers can count until 2255.)
	FirstRev int64
	// DiffMaxLines bounds the lines of each side of a diff, 0 for 10,000.
	DiffMaxLines int
}

// A Forest is what is in one Store: trees by name, and the chunks that they share. It is
// safe for concurrent use.
type Forest struct {
	store Store
	cfg   Config
	home  Home // nil for none

	mu   sync.Mutex
	pins map[Hash]int
	// listed are chunks of files that change streams have listed: most are asked for next.
	listed map[Hash]listed
	hand   hand
	// told are chunks of which peers were told that files have them, and when, in milliseconds.
	told map[Hash]int64
	// sweeps is odd while a collection may be deleting chunks, and grows with each.
	sweeps atomic.Int64
	// changed has the channels of those who wait for a change of a tree, by its name.
	changed map[string]chan struct{}
}

// New returns the forest of a store. There should be one for each store: what is being
// read is known to it.
func New(store Store, cfg Config) *Forest {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.DiffMaxLines == 0 {
		cfg.DiffMaxLines = 10_000
	}
	return &Forest{store: store, cfg: cfg, pins: map[Hash]int{}, told: map[Hash]int64{}, listed: map[Hash]listed{}, changed: map[string]chan struct{}{}}
}

// now is the time in milliseconds.
func (f *Forest) now() int64 { return f.cfg.Now().UnixMilli() }

// A Tree is one namespace of a Forest. It is safe for concurrent use.
type Tree struct {
	forest *Forest
	name   string
}

// settings is what a namespace's Config holds of ours.
type settings struct {
	// Synced: a peer may hold a cursor, so that directory moves need their tombs.
	Synced bool `json:"synced,omitempty"`
}

// Tree opens the tree of a name, and makes it when there is none: an empty root. The
// name is a letter and up to 63 letters, digits and underscores.
func (f *Forest) Tree(ctx context.Context, name string) (*Tree, error) {
	if !names.MatchString(name) {
		return nil, fmt.Errorf("%w: workspace namespace %q", ErrInvalid, name)
	}
	t := &Tree{forest: f, name: name}
	err := f.store.View(ctx, func(tx Tx) error {
		_, err := tx.Namespace(name)
		return err
	})
	if !errors.Is(err, ErrNoRow) {
		return t, wrap("open tree", err)
	}
	err = f.store.Update(ctx, func(tx Tx) error {
		if _, err := tx.Namespace(name); !errors.Is(err, ErrNoRow) {
			return err // somebody was first
		}
		return f.plant(tx, name)
	})
	return t, wrap("make tree", err)
}

// Find opens the tree of a name, and makes none: io/fs.ErrNotExist says that there is none.
func (f *Forest) Find(ctx context.Context, name string) (*Tree, error) {
	err := f.store.View(ctx, func(tx Tx) error {
		_, err := tx.Namespace(name)
		return err
	})
	if errors.Is(err, ErrNoRow) {
		err = fmt.Errorf("tree %q: %w", name, iofs.ErrNotExist)
	}
	if err != nil {
		return nil, wrap("open tree", err)
	}
	return &Tree{forest: f, name: name}, nil
}

// plant makes an empty tree.
func (f *Forest) plant(tx Tx, name string) error {
	now := f.cfg.Now()
	ns := Namespace{Name: name, Rev: f.cfg.FirstRev, Dirs: 1, Config: "{}"}
	if ns.Rev == 0 {
		ns.Rev = now.UnixMicro()
	}
	if err := tx.PutNamespace(&ns); err != nil {
		return err
	}
	// The root's revision is 0: nobody is told of it before something touches it.
	at := Nanos(now)
	root := Node{Namespace: ns.ID, Kind: KindDir, Mode: 0o755, Links: 1, MTime: at, BTime: at}
	if err := tx.PutNode(&root); err != nil {
		return err
	}
	ns.Root = root.Ino
	return tx.PutNamespace(&ns)
}

// Changed returns a channel that is closed at the next change of the tree. A change that
// came before the call does not close it: ask for it before you look at the tree.
func (t *Tree) Changed() <-chan struct{} { return t.forest.Changed(t.name) }

// Changed is Tree.Changed for the tree of a name, which need not be there yet.
func (f *Forest) Changed(name string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.changed[name]
	if ch == nil {
		ch = make(chan struct{})
		f.changed[name] = ch
	}
	return ch
}

// tell closes the channels of those who wait for a change.
func (f *Forest) tell(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ch := f.changed[name]; ch != nil {
		close(ch)
		delete(f.changed, name)
	}
}

// Name is the tree's in its store.
func (t *Tree) Name() string { return t.name }

// Info is the size of a tree.
type Info struct {
	Rev                int64 // the last revision
	Files, Dirs, Bytes int64 // Dirs counts the root
}

// Info returns the tree's revision and size. It is cheap.
func (t *Tree) Info(ctx context.Context) (Info, error) {
	var info Info
	err := t.view(ctx, func(_ Tx, ns *Namespace) error {
		info = Info{Rev: ns.Rev, Files: ns.Files, Dirs: ns.Dirs, Bytes: ns.Bytes}
		return nil
	})
	return info, err
}

// Peer returns how far synchronisation with a peer has come: the zero Peer with its ID
// for one that is not known.
func (t *Tree) Peer(ctx context.Context, id string) (Peer, error) {
	p := Peer{ID: id}
	err := t.view(ctx, func(tx Tx, ns *Namespace) error {
		got, err := tx.Peer(ns.ID, id)
		if errors.Is(err, ErrNoRow) {
			return nil
		}
		p = got
		return err
	})
	return p, err
}

// View gives fn one state of the store that the tree is in, for those who keep rows of their own in it
// beside the tree's: writing methods of the Tx fail. Views run beside each other and beside an update. Tombs of
// directories that were moved may not be among the rows yet.
func (t *Tree) View(ctx context.Context, fn func(Tx) error) error {
	return t.forest.store.View(ctx, fn)
}

// view reads one state of the tree.
func (t *Tree) view(ctx context.Context, fn func(Tx, *Namespace) error) error {
	return t.forest.store.View(ctx, func(tx Tx) error {
		ns, err := tx.Namespace(t.name)
		if err != nil {
			return wrap("read tree", err)
		}
		return fn(tx, &ns)
	})
}

// settings reads the namespace's Config.
func (ns *Namespace) settings() (settings, error) {
	var s settings
	if err := json.Unmarshal([]byte(ns.Config), &s); err != nil {
		return s, fmt.Errorf("%w: the configuration of namespace %s: %w", ErrDamaged, ns.Name, err)
	}
	return s, nil
}

// setSynced sets Synced and keeps what it does not know of the Config.
func (ns *Namespace) setSynced() error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(ns.Config), &all); err != nil {
		return fmt.Errorf("%w: the configuration of namespace %s: %w", ErrDamaged, ns.Name, err)
	}
	all["synced"] = json.RawMessage("true")
	b, err := json.Marshal(all)
	ns.Config = string(b)
	return err
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
