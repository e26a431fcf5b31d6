package computerwire

import (
	"fmt"
	"math"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// Entry is an entry on its way: made with EntryOf it is sent, received it is read with
// Tree.
type Entry struct {
	e   tree.Entry
	bad error // what is wrong with the one that was received
}

// EntryOf is the form of an entry.
func EntryOf(e tree.Entry) (Entry, error) { return Entry{e: e}, nil }

// Tree is the entry that e stands for, as changes.CheckEntry wants it. Of the mode the
// permission bits are kept.
func (e Entry) Tree() (tree.Entry, error) {
	if e.bad != nil {
		return e.e, e.bad
	}
	return e.e, changes.CheckEntry(&e.e)
}

// Entries as they are sent.
type (
	chunk struct {
		Hash []byte `json:"hash"`
		Size int64  `json:"size"`
	}
	fileEntry struct {
		Kind   string  `json:"kind"`
		Rev    int64   `json:"rev"`
		Path   string  `json:"path"`
		Mode   uint32  `json:"mode"`
		MTime  int64   `json:"mtime"` // milliseconds since 1970
		Size   int64   `json:"size"`
		Chunks []chunk `json:"chunks"`
	}
	dirEntry struct {
		Kind  string `json:"kind"`
		Rev   int64  `json:"rev"`
		Path  string `json:"path"`
		Mode  uint32 `json:"mode"`
		MTime int64  `json:"mtime"`
	}
	linkEntry struct {
		Kind   string `json:"kind"`
		Rev    int64  `json:"rev"`
		Path   string `json:"path"`
		Target string `json:"target"`
		Mode   uint32 `json:"mode"`
		MTime  int64  `json:"mtime"`
	}
	deleteEntry struct {
		Kind  string `json:"kind"`
		Rev   int64  `json:"rev"`
		Path  string `json:"path"`
		Prior string `json:"prior,omitempty"`
	}
)

// MarshalCapnweb implements capnweb.Marshaler.
func (e Entry) MarshalCapnweb() (any, error) {
	t := &e.e
	kind, mtime, mode := t.Kind.String(), t.MTime.UnixMilli(), t.Mode&tree.ModeMask
	switch t.Kind {
	case tree.KindFile:
		chunks := make([]chunk, len(t.Parts))
		for i := range t.Parts {
			chunks[i] = chunk{t.Parts[i].Hash[:], t.Parts[i].Size}
		}
		return &fileEntry{kind, t.Rev, t.Path, mode, mtime, t.Size, chunks}, nil
	case tree.KindDir:
		return &dirEntry{kind, t.Rev, t.Path, mode, mtime}, nil
	case tree.KindSymlink:
		return &linkEntry{kind, t.Rev, t.Path, t.Target, mode, mtime}, nil
	case tree.KindDelete:
		return &deleteEntry{kind, t.Rev, t.Path, t.Prior}, nil
	}
	return nil, fmt.Errorf("the entry of %s has no kind", t.Path)
}

// UnmarshalCapnweb implements capnweb.Unmarshaler. What is wrong is told by Tree, with
// its code.
func (e *Entry) UnmarshalCapnweb(v any) error {
	o, ok := v.(capnweb.Object)
	if !ok {
		e.bad = changes.Invalid("", "no object")
		return nil
	}
	e.bad = e.read(o)
	return nil
}

var kinds = map[string]tree.Kind{
	"file": tree.KindFile, "dir": tree.KindDir, "symlink": tree.KindSymlink, "delete": tree.KindDelete,
}

// read takes the members that the entry's kind has.
func (e *Entry) read(o capnweb.Object) error {
	t := &e.e
	t.Path, _ = o.Get("path").(string)
	name, _ := o.Get("kind").(string)
	if t.Kind = kinds[name]; t.Kind == 0 {
		return changes.Invalid(t.Path, "an entry of the kind %.40q", name)
	}
	m := members{o: o}
	t.Rev = m.integer("rev")
	if t.Kind == tree.KindDelete {
		if v := o.Get("prior"); !absent(v) {
			t.Prior = m.text("prior")
		}
		return m.err(t.Path)
	}
	t.Mode, t.MTime = uint32(m.integer("mode"))&tree.ModeMask, m.millis("mtime")
	switch t.Kind {
	case tree.KindFile:
		t.Size, t.Parts = m.integer("size"), m.parts("chunks")
	case tree.KindSymlink:
		t.Target = m.text("target")
	default:
	}
	return m.err(t.Path)
}

// members reads the members of an object and notes the first one that is not as it
// should be.
type members struct {
	o   capnweb.Object
	bad string
}

func (m *members) fail(name string) {
	if m.bad == "" {
		m.bad = name
	}
}

func (m *members) err(path string) error {
	if m.bad == "" {
		return nil
	}
	return changes.Invalid(path, "an entry without %s, or with one that is none", m.bad)
}

func (m *members) text(name string) string {
	text, ok := m.o.Get(name).(string)
	if !ok {
		m.fail(name)
	}
	return text
}

func (m *members) integer(name string) int64 {
	f, ok := m.o.Get(name).(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > float64(tree.MaxRev) {
		m.fail(name)
		return 0
	}
	return int64(f)
}

// millis is a time, which some peers take from a clock that has fractions.
func (m *members) millis(name string) time.Time {
	f, ok := m.o.Get(name).(float64)
	if !ok || !(math.Abs(f) <= float64(tree.MaxRev)) {
		m.fail(name)
		return time.Time{}
	}
	return time.UnixMilli(int64(math.Floor(f)))
}

func (m *members) parts(name string) []tree.Part {
	list, ok := m.o.Get(name).([]any)
	if !ok {
		m.fail(name)
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	out := make([]tree.Part, len(list))
	for i, item := range list {
		o, _ := item.(capnweb.Object)
		c := members{o: o}
		out[i].Size = c.integer("size")
		hash, _ := o.Get("hash").([]byte)
		if len(hash) != len(out[i].Hash) || c.bad != "" {
			m.fail(name)
			return nil
		}
		out[i].Hash = tree.Hash(hash)
	}
	return out
}

func absent(v any) bool {
	_, undefined := v.(capnweb.Undefined)
	return undefined || v == nil
}
