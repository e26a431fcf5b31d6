package statetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// model holds a State against a map, through random calls with revisions that were given
// at some time to the key, or to another one.
func model(t *testing.T, s rendezvous.State) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	has := map[string]rendezvous.Entry{}
	given := []uint64{0, rendezvous.AnyRevision}
	for step := range 200 {
		key := string(rune('a' + random.IntN(3)))
		was, there := has[key]
		revision := given[random.IntN(len(given))]
		if random.IntN(2) == 0 {
			revision = was.Revision
		}
		fits := revision == rendezvous.AnyRevision || revision == was.Revision
		var got error
		var want []error
		switch call := random.IntN(5); {
		case call < 2:
			value := bytes.Repeat([]byte{byte(step)}, random.IntN(4))
			var rev uint64
			rev, got = s.Put(t.Context(), bucket, key, value, revision)
			if want = []error{rendezvous.ErrConflict}; fits {
				want = nil
				has[key] = rendezvous.Entry{Key: key, Value: value, Revision: rev}
				given = append(given, rev)
			}
		case call == 2 && revision != 0:
			got = s.Delete(t.Context(), bucket, key, revision)
			switch {
			case there && fits:
				delete(has, key)
			case there:
				want = []error{rendezvous.ErrConflict}
			default:
				want = []error{rendezvous.ErrNotFound, rendezvous.ErrConflict}
			}
		case call == 3:
			var e rendezvous.Entry
			if e, got = s.Get(t.Context(), bucket, key); there {
				if e.Revision != was.Revision || !bytes.Equal(e.Value, was.Value) {
					t.Fatalf("seed %d, step %d: %s is %v, want %v", seed, step, key, e, was)
				}
			} else {
				want = []error{rendezvous.ErrNotFound}
			}
		default:
			var list []rendezvous.Entry
			list, got = s.List(t.Context(), bucket)
			if len(list) != len(has) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, list, has)
			}
			for _, e := range list {
				if w := has[e.Key]; e.Revision != w.Revision || !bytes.Equal(e.Value, w.Value) {
					t.Fatalf("seed %d, step %d: %s is %v, want %v", seed, step, e.Key, e, w)
				}
			}
		}
		ok := len(want) == 0 && got == nil
		for _, w := range want {
			ok = ok || errors.Is(got, w)
		}
		if !ok {
			t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, want)
		}
	}
}
