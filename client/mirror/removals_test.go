package mirror

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// watching is a world in step with 21 files, whose next calls count removals within a minute.
func watching(t *testing.T) *world {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return of <= 6 || n <= of/2 }})
	for i := range 21 {
		w.local.do(fmt.Sprintf("write /d/%02d %d", i, i))
	}
	w.sync()
	*w.local.clock = w.local.clock.Add(time.Hour)
	w.remote.clock = w.local.clock
	w.cfg.Removals = NewRemovals(time.Minute)
	w.cfg.Removals.now = func() time.Time { return *w.local.clock }
	w.restart()
	return w
}

// until synchronises after each line, and returns how many went well.
func (w *world) until(e *end, line string, n int) (int, *DeletesError) {
	w.t.Helper()
	for i := range n {
		e.do(fmt.Sprintf(line, i))
		if _, err := w.m.Sync(e.context()); err != nil {
			many, ok := errors.AsType[*DeletesError](err)
			if !ok {
				w.t.Fatalf("sync: %v", err)
			}
			return i, many
		}
	}
	return n, nil
}

// What is removed one after the other within a short time is asked about like what is removed at once,
// at either side, also over another connection.
func TestFirstDRemovedSlowly(t *testing.T) {
	for _, remote := range []bool{true, false} {
		t.Run(fmt.Sprint(remote), func(t *testing.T) {
			w := watching(t)
			e, other := w.local, w.remote
			if !remote {
				e, other = w.remote, w.local
			}
			n, _ := w.until(e, "rm /d/%02d", 4)
			w.restart()
			for n < 21 {
				e.do(fmt.Sprintf("rm /d/%02d", n))
				_, err := w.m.Sync(t.Context())
				if many, ok := errors.AsType[*DeletesError](err); ok {
					want := &DeletesError{Remote: remote, Count: 11, Of: 21, Before: 10, Names: []string{"/d/10"}}
					if diff := cmp.Diff(want, many); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					break
				} else if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if got := other.list(); n != 10 || len(got) != 12 {
				t.Errorf("after %d there are %q", n, got)
			}
			// Nothing more goes, whatever is tried.
			w.restart()
			if _, err := w.m.Sync(t.Context()); err == nil {
				t.Error("it goes on")
			}
			// The caller says that it is done.
			w.cfg.MayDelete, w.cfg.Removals = nil, nil
			w.restart()
			w.sync()
			w.rest()
		})
	}
}

// What is removed over a longer time, comes back, or has just been made is no removal of much.
func TestFirstDNormalWork(t *testing.T) {
	for name, work := range map[string]func(w *world, e *end) (int, *DeletesError){
		"over a longer time": func(w *world, e *end) (n int, many *DeletesError) {
			for n < 15 && many == nil {
				e.do(fmt.Sprintf("rm /d/%02d", n))
				*w.local.clock = w.local.clock.Add(10 * time.Second)
				_, err := w.m.Sync(e.context())
				many, _ = errors.AsType[*DeletesError](err)
				n++
			}
			return n, many
		},
		"removed and made again": func(w *world, e *end) (n int, many *DeletesError) {
			for range 5 {
				for _, line := range []string{"rm /d/%02d", "write /d/%02d again"} {
					if n, many = w.until(e, line, 9); many != nil {
						return n, many
					}
				}
			}
			return 15, nil
		},
		"made and removed": func(w *world, e *end) (n int, many *DeletesError) {
			for range 5 {
				for _, line := range []string{"write /tmp/%02d.o 1", "rm /tmp/%02d.o"} {
					if n, many = w.until(e, line, 15); many != nil {
						return n, many
					}
				}
			}
			return n, nil
		},
		"renamed": func(w *world, e *end) (int, *DeletesError) { return w.until(e, "mv /d/%02[1]d /d/%[1]d.new", 15) },
	} {
		for _, remote := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", remote), func(t *testing.T) {
				w := watching(t)
				e := w.local
				if !remote {
					e = w.remote
				}
				if n, many := work(w, e); n != 15 || many != nil {
					t.Errorf("it ends after %d with %+v", n, many)
				}
				w.same()
			})
		}
	}
}

// What is remembered is bounded.
func TestFirstDBound(t *testing.T) {
	r := NewRemovals(time.Minute)
	var gone []removal
	for i := range maxRemovals + 10 {
		gone = append(gone, removal{path: fmt.Sprint("/", i)})
	}
	r.removed(true, gone)
	r.removed(false, gone[:3])
	for _, g := range gone {
		r.comes(g.path+"x", true)
	}
	if got, here := r.before(true, gone[:10]), r.before(false, nil); got != maxRemovals-10 || here != 3 || len(r.made) != maxRemovals {
		t.Errorf("%d and %d are remembered, and %d that were made", got, here, len(r.made))
	}
	r.now = func() time.Time { return time.Now().Add(time.Hour) }
	if got := r.before(true, nil); got != 0 || len(r.made) != 0 {
		t.Errorf("%d are remembered after an hour, and %d that were made", got, len(r.made))
	}
}
