package disk

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// kids do as a map does, with few nodes and with many.
func TestKids(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k *kids
		want := map[string]*node{}
		name := rapid.StringMatching(`[a-c]{0,2}[0-9]{0,2}`)
		for range rapid.IntRange(0, 4*maxFew).Draw(t, "steps") {
			name := name.Draw(t, "name")
			if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
				delete(want, name)
				k.cut(name)
				continue
			}
			n := &node{name: name}
			want[name] = n
			if k == nil {
				k = &kids{}
			}
			k.put(n)
			if k.get(name) != n {
				t.Fatalf("%q is not what was put", name)
			}
		}
		got := map[string]*node{}
		for n := range k.all() {
			got[n.name] = n
		}
		if !maps.Equal(got, want) || k.len() != len(want) {
			t.Fatalf("%d nodes, %v, want %v", k.len(), slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		for name, n := range want {
			if k.get(name) != n {
				t.Errorf("%q is not found", name)
			}
		}
	})
}
