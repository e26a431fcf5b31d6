package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
)

// plan is what Plan tells, and what it says of conflicts.
func (w *world) plan() (moves []string, p Plan, err error) {
	w.t.Helper()
	before, there := w.local.list(), w.remote.list()
	p, err = w.m.Plan(context.Background(), func(m Move) error {
		moves = append(moves, fmt.Sprintf("%t %s %s %d", m.ToRemote, m.Kind, m.Path, m.Size))
		return nil
	})
	if diff := cmp.Diff(before, w.local.list()) + cmp.Diff(there, w.remote.list()); diff != "" {
		w.t.Errorf("it changed something:\n%s", diff)
	}
	w.wantConflicts()
	return moves, p, err
}

// What Plan tells is what Sync does, with each policy.
func TestPlan(t *testing.T) {
	rest := []string{"false delete /d 0", "false delete /d/x 0", "false file /m 524289", "true delete /g 0", "true file /n 4"}
	for _, tt := range []struct {
		policy Policy
		moves  []string // beside rest
		plan   Plan
		kept   Kept
	}{
		{Theirs, []string{"false file /f 1"}, Plan{ToRemote: 2, ToLocal: 4, ObjectsToSend: 1, ObjectsToGet: 3, BytesToSend: 4, BytesToGet: 524290}, KeptRemote},
		{Ours, []string{"true file /f 1"}, Plan{ToRemote: 3, ToLocal: 3, ObjectsToSend: 2, ObjectsToGet: 3, BytesToSend: 5, BytesToGet: 524290}, KeptLocal},
		{
			Both,
			[]string{"false file /f 1", "true file /f.conflict-e8b25488 1"},
			Plan{ToRemote: 3, ToLocal: 4, ObjectsToSend: 2, ObjectsToGet: 3, BytesToSend: 5, BytesToGet: 524290},
			KeptBoth,
		},
	} {
		t.Run(tt.policy.String(), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: tt.policy})
			w.local.do("write /f base", "write /g base", "write /d/x base")
			w.sync()
			w.local.do("write /f L", "write /n here", "rm /g")
			w.remote.do("write /f R", "rm /d", "big /m r .")
			moves, p, err := w.plan()
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(rest, tt.moves)
			slices.Sort(want)
			slices.Sort(moves)
			if diff := cmp.Diff(want, moves); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
			if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "/f" || p.Conflicts[0].Kept != tt.kept {
				t.Errorf("conflicts %+v", p.Conflicts)
			}
			p.Conflicts = nil
			if diff := cmp.Diff(tt.plan, p); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			r := w.sync()
			if r.Pushed != p.ToRemote || r.ObjectsOut != p.ObjectsToSend || r.BytesOut != p.BytesToSend || r.BytesIn != p.BytesToGet {
				t.Errorf("synchronised %+v, planned was %+v", r, p)
			}
			w.rest()
		})
	}
}

// With Fail nothing would move.
func TestPlanFails(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Fail})
	w.local.do("write /f base")
	w.sync()
	w.local.do("write /f L", "write /n here")
	w.remote.do("write /f R", "write /m there")
	moves, _, err := w.plan()
	if failed, ok := errors.AsType[*ConflictError](err); !ok || len(failed.Conflicts) != 1 || failed.Conflicts[0].Path != "/f" {
		t.Errorf("got %v", err)
	}
	if len(moves) > 0 {
		t.Errorf("would move %s", strings.Join(moves, ", "))
	}
	w.local.do("write /f R")
	if moves, _, err := w.plan(); err != nil || len(moves) != 3 {
		t.Errorf("without the conflict: %q, %v", moves, err)
	}
}

// Plan says of what there was no room for here what the next Sync would: that it comes, or is not written here.
func TestPlanWithoutRoomHere(t *testing.T) {
	w, remote := newSmall(t, Config{})
	room := int64(40)
	w.cfg.Room = func() (int64, bool) { return room, true }
	w.restart()
	remote.roomHere = 20
	w.remote.do("write /a "+strings.Repeat("a", 30), "write /b "+strings.Repeat("b", 35), "write /c 1")
	w.sync()
	for _, tt := range []struct {
		room  int64
		moves []string
		here  []changes.Skipped
	}{
		{0, nil, unwritten("/a", "/b")},
		{40, []string{"false file /a 30"}, unwritten("/b")},
		{100, []string{"false file /a 30", "false file /b 35"}, nil},
	} {
		w.restart()
		room = tt.room
		moves, p, err := w.plan()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(moves)
		if diff := cmp.Diff(tt.moves, moves) + cmp.Diff(tt.here, p.Here); diff != "" || len(p.There) != 0 || p.ToLocal != len(tt.moves) || p.ObjectsToGet != len(tt.moves) {
			t.Errorf("with room for %d: %+v\n%s", tt.room, p, diff)
		}
	}
	remote.roomHere = 0
	w.restart()
	w.sync()
	w.same()
}
