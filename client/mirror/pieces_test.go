package mirror

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// What is not sent of a block goes with its first piece, whose cursor may be behind it: a crash between the
// pieces does not forget it.
func TestPiecesKeepWhatIsNotSent(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f 1")
	w.sync()
	b := &block{vanished: []string{"/v"}, refused: []string{"/r"}, blocked: []string{"/b"}, holds: map[string]*held{"/h": {Apart: true, Lacking: true}}}
	for i := range changes.MaxConflicts + 1 {
		b.entries = append(b.entries, tree.Entry{Kind: tree.KindFile, Path: fmt.Sprintf("/%06d", i), Rev: int64(i + 1)})
	}
	pieces := w.m.pieces(b)
	if len(pieces) != 2 {
		t.Fatalf("%d pieces", len(pieces))
	}
	first := pieces[0]
	if !slices.Equal(first.vanished, b.vanished) || !slices.Equal(first.refused, b.refused) || !slices.Equal(first.blocked, b.blocked) || first.holds["/h"] == nil {
		t.Errorf("the first piece has vanished %v, refused %v, blocked %v, holds %v", first.vanished, first.refused, first.blocked, first.holds)
	}
}
