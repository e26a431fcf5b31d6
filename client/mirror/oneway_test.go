package mirror

import "testing"

// With Guard all that has changed here goes there, and nothing that has changed there is
// taken or overwritten, now or later.
func TestGuard(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold, Guard: true})
	w.local.do("write /f base", "write /g base", "write /h base", "write /d/a base", "write /d/b base", "write /k base")
	w.sync()
	w.remote.do("write /f R", "rm /g", "write /n/x R", "rm /d", "chmod /k 700")
	w.local.do("write /f L", "write /h L", "write /new L", "write /d/a L")
	here := w.local.list()
	w.sync()
	w.local.want(here...)
	there := []string{"/f 644 R", "/h 644 L", "/k 700 base", "/n/ 755", "/n/x 644 R", "/new 644 L"}
	w.remote.want(there...)
	if len(w.conflicts) != 5 {
		t.Errorf("conflicts: %q", w.conflicts)
	}
	w.conflicts = nil
	w.local.do("write /n/x L", "write /g L", "write /k L", "write /d/c L", "write /new 2", "rm /f")
	w.remote.do("write /n/y R", "write /late R")
	w.sync()
	w.remote.want("/f 644 R", "/h 644 L", "/k 700 base", "/late 644 R", "/n/ 755", "/n/x 644 R", "/n/y 644 R", "/new 644 2")
	w.wantConflicts("/late: delete / " + hash("R") + ", kept none")

	// Each is resolved by itself.
	for path, policy := range map[string]Policy{"/f": Theirs, "/g": Ours, "/n": Ours, "/late": Theirs} {
		if _, err := w.m.Resolve(t.Context(), path, policy); err != nil {
			t.Fatal(err)
		}
	}
	w.remote.want("/f 644 R", "/g 644 L", "/h 644 L", "/k 700 base", "/late 644 R", "/n/ 755", "/n/x 644 L", "/n/y 644 R", "/new 644 2")
	w.local.want("/d/ 755", "/d/a 644 L", "/d/b 644 base", "/d/c 644 L", "/f 644 R", "/g 644 L", "/h 644 L", "/k 644 L", "/late 644 R", "/n/ 755", "/n/x 644 L", "/n/y 644 R", "/new 644 2")
}

// With Guard not even the time of a file is taken.
func TestGuardTimes(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold, Guard: true})
	w.local.do("write /f P")
	w.sync()
	before, err := w.local.tree.Entry(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	w.remote.do("write /f P")
	w.sync()
	now, err := w.local.tree.Entry(t.Context(), "/f")
	if err != nil || !now.MTime.Equal(before.MTime) {
		t.Errorf("the time went from %v to %v, %v", before.MTime, now.MTime, err)
	}
}
