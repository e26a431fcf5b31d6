package mirror

import (
	"context"
	"testing"
)

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
	for path, policy := range map[string]Policy{"/f": Theirs, "/g": Ours, "/n": Ours, "/late": Theirs} { // of /n here is x alone
		if _, err := w.m.Resolve(t.Context(), path, policy); err != nil {
			t.Fatal(err)
		}
	}
	w.remote.want("/f 644 R", "/g 644 L", "/h 644 L", "/k 700 base", "/late 644 R", "/n/ 755", "/n/x 644 L", "/new 644 2")
	w.local.want("/d/ 755", "/d/a 644 L", "/d/b 644 base", "/d/c 644 L", "/f 644 R", "/g 644 L", "/h 644 L", "/k 644 L", "/late 644 R", "/n/ 755", "/n/x 644 L", "/new 644 2")
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

// A path that only the remote has made is nothing here: ours removes it there, and keeps it here. Theirs and
// both bring it.
func TestGuardResolvesWhatIsNotHere(t *testing.T) {
	for name, guard := range map[string]bool{"with the flag": true, "without": false} {
		for policy, brings := range map[Policy]bool{Ours: false, Theirs: true, Both: true} {
			t.Run(policy.String()+" "+name, func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: Hold, Guard: true})
				w.local.do("write /old 1")
				w.sync()
				w.remote.do("write /f R", "ln to /l", "write /d/a A", "write /d/e/b B", "mkdir /empty")
				here, there := w.local.list(), w.remote.list()
				w.sync()
				w.local.want(here...)
				w.cfg.Guard = guard
				w.restart()
				for _, path := range []string{"/f", "/l", "/d", "/empty"} {
					if _, err := w.m.Resolve(context.Background(), path, policy); err != nil {
						t.Fatal(err)
					}
				}
				if brings {
					w.local.want(there...)
					w.remote.want(there...)
					return
				}
				w.local.want(here...)
				w.remote.want(here...)
				w.local.wantLosers("/d/a undone A", "/d/e/b undone B", "/f undone R", "/l undone to")
				w.rest()
				if list, err := w.m.Conflicts(t.Context()); len(list) > 0 || err != nil {
					t.Errorf("held: %v, %v", list, err)
				}
			})
		}
	}
}
