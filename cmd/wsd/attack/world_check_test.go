//go:build attack && linux

package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
)

// A confined command can do what its policy allows and nothing else, so that the
// other tests do not pass because nothing works.
func TestWorld(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		kept, open := secret(), secret()
		w.write(filepath.Join(w.dir, "kept"), kept, 0o600)
		w.write(filepath.Join(w.dir, "open"), open, 0o600)
		box := w.ww(w.dir, at(filepath.Join(w.dir, "kept"), protocol.AccessDeny))
		r := s.sh(c, box, "cat open kept; id -u >made")
		if !strings.Contains(r.stdout, open) {
			w.Errorf("the file that may be read is not there: %+v", r)
		}
		hidden(w, "cat", r.text(), kept)
		if made, err := os.ReadFile(filepath.Join(w.dir, "made")); err != nil || len(made) == 0 {
			w.Errorf("made: %q, %v", made, err)
		}
		if got, err := readFile(rc, filepath.Join(w.dir, "open"), box); err != nil || got != open {
			w.Errorf("fs/readFile of open: %q, %v", got, err)
		}
		for _, box := range []*protocol.Sandbox{box, w.policy(root(protocol.AccessRead), glob("**/kept"))} {
			if got, err := readFile(rc, filepath.Join(w.dir, "kept"), box); err == nil {
				w.Errorf("fs/readFile of kept: %q", got)
			}
		}
		if r := s.sh(c, w.ro(), "cat open; : >written"); r.code == 0 || !strings.Contains(r.stdout, open) {
			w.Errorf("with a policy that allows to read: %+v", r)
		}
	})
}
