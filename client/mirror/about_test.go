package mirror

import "testing"

// A text about both sides stays, whatever is synchronised, and is that of one peer.
func TestFirstCAbout(t *testing.T) {
	w := newWorld(t, Config{})
	about := func(peerID, want string) {
		t.Helper()
		if got, err := About(t.Context(), w.local.tree, peerID); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	about("", "")
	for _, text := range []string{"one", "two\n"} {
		if err := SetAbout(t.Context(), w.local.tree, "", text); err != nil {
			t.Fatal(err)
		}
		w.local.do("write /f " + text)
		w.sync()
		w.lose(w.remote, 7000)
		w.sync()
		w.rest()
		about("", text)
		about(DefaultPeerID, text)
		about("other", "")
	}
}
