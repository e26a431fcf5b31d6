package mirror

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f base", "write /g base", "write /d/x base")
	w.sync()
	w.local.do("write /f L", "write /n here", "rm /g")
	w.remote.do("write /f R", "rm /d", "big /m r .")
	before, there := w.local.list(), w.remote.list()
	var moves []string
	p, err := w.m.Plan(t.Context(), func(m Move) error {
		moves = append(moves, fmt.Sprintf("%t %s %s %d", m.ToRemote, m.Kind, m.Path, m.Size))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"false delete /d 0", "false delete /d/x 0", "false file /m 524289", "true file /f 1", "true file /n 4", "true delete /g 0"}
	if diff := cmp.Diff(want, moves); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "/f" || p.Conflicts[0].Kept != KeptNone {
		t.Errorf("conflicts %+v", p.Conflicts)
	}
	p.Conflicts = nil
	if diff := cmp.Diff(Plan{ToRemote: 3, ToLocal: 3, ObjectsToSend: 2, ObjectsToGet: 2, BytesToSend: 5, BytesToGet: 524289}, p); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.local.list()) + cmp.Diff(there, w.remote.list()); diff != "" {
		t.Errorf("it changed something:\n%s", diff)
	}
	w.wantConflicts()
	w.sync()
	w.rest()
}
