package client

import (
	"runtime/debug"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// The memory of the beginning of a long stream is used again once that was sent, and only then.
func TestBegunMemoryIsUsedAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would free it meanwhile
	first := func(sent bool) *byte {
		t.Helper()
		b := &begun{Source: changes.ToSource(changes.FromSlice([]tree.Data{{Bytes: make([]byte, 100<<10)}, {Bytes: make([]byte, 50<<10)}}), changes.ObjectToWire)}
		if all, err := b.read(t.Context()); !all || err != nil {
			t.Fatal(all, err)
		}
		b.sent = sent
		b.release()
		return &b.memory[:1][0]
	}
	one := first(true)
	if first(false) != one {
		t.Error("what was sent is not used again")
	}
	if first(true) == one {
		t.Error("what may not have been sent is used again")
	}
}
