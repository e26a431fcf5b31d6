package mirror

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// A removal of the remote's is none that was sent from here once its file has come over since:
// where this side is to be the last word, or nothing is to be taken, it is undone or held.
func TestRemovedThereAfterAPushThatWasCut(t *testing.T) {
	for left := 1; left < 9; left++ {
		for _, cfg := range []Config{{Undo: true}, {OnConflict: Hold, Guard: true}} {
			t.Run(fmt.Sprintf("left %d undo %t", left, cfg.Undo), func(t *testing.T) {
				w := newWorld(t, Config{})
				cut := &cutter{Peer: w.remote.server, left: -1}
				w.cfg.Remote = cut
				w.restart()
				w.local.do("write /f base", "write /g base")
				w.sync()
				w.local.do("rm /f")
				cut.set(left, false)
				if _, err := w.m.Tick(context.Background()); err != nil && !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				cut.set(-1, false)
				w.remote.do("write /f R")
				if _, err := w.m.Pull(context.Background()); err != nil {
					t.Fatal(err)
				}
				w.local.want("/f 644 R", "/g 644 base")
				w.remote.do("rm /f")
				w.cfg.Undo, w.cfg.Guard, w.cfg.OnConflict = cfg.Undo, cfg.Guard, cfg.OnConflict
				w.restart()
				r := w.sync()
				if cfg.Undo {
					w.same()
					w.remote.want("/f 644 R", "/g 644 base")
				} else if r.Held != 1 {
					t.Errorf("held: %d, want 1", r.Held)
				}
			})
		}
	}
}
