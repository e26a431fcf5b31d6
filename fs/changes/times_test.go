package changes_test

import (
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Times travel to the nanosecond between two of us, and in milliseconds from others.
func TestC071Nanoseconds(t *testing.T) {
	for _, at := range []time.Time{time.Unix(1_577_836_800, 123_456_789), time.Unix(-7, 999_999_999), time.Unix(5, 0), time.Unix(0, 999_000)} {
		in := tree.Entry{Kind: tree.KindDir, Path: "/d", Mode: 0o755, Rev: 1, MTime: at}
		wire := changes.EntryToWire(&in)
		if got, err := changes.EntryFromWire(wire); err != nil || !got.MTime.Equal(at) {
			t.Errorf("%v became %v, %v", at, got.MTime, err)
		}
		wire.Nanos = 0
		if got, err := changes.EntryFromWire(wire); err != nil || got.MTime.UnixMilli() != at.UnixMilli() || !tree.SameTime(got.MTime, at) {
			t.Errorf("%v in milliseconds became %v, %v", at, got.MTime, err)
		}
		for _, n := range []int64{-1, 1_000_000} {
			wire.Nanos = n
			if _, err := changes.EntryFromWire(wire); changes.Code(err) != "EINVAL" {
				t.Errorf("%d nanoseconds: %v", n, err)
			}
		}
	}
}

// A push sets times only when it says so.
func TestC071PushTimes(t *testing.T) {
	e := newEnd(t)
	entry := tree.Entry{Kind: tree.KindFile, Path: "/f", Mode: 0o644, Rev: 1, MTime: time.Unix(1, 0)}
	e.mustPush(1, entry)
	for i, times := range []bool{false, true} {
		entry.Rev, entry.MTime = int64(i+2), time.Unix(1_577_836_800, 123_456_789)
		if _, err := e.Push(t.Context(), changes.PushInput{SenderRev: entry.Rev, Times: times}, changes.FromSlice([]tree.Entry{entry})); err != nil {
			t.Fatal(err)
		}
		info, err := e.tree.Lstat(t.Context(), "/f")
		if err != nil || info.MTime.Equal(entry.MTime) != times {
			t.Errorf("with times %v: %v, %v", times, info.MTime, err)
		}
	}
	if w, err := e.Watermarks(t.Context(), false); err != nil || !w.SetsTimes {
		t.Errorf("%+v, %v", w, err)
	}
}
