package disk

import (
	"iter"
	"slices"
	"strings"
)

// kids are the nodes in a directory by their names. nil is a directory without any. Most directories have
// few: a list in the order of the names takes a fifth of the memory of a map.
type kids struct {
	few  []*node
	many map[string]*node // all of them, nil while few has them
}

// maxFew is how many nodes are in a list. To insert and to remove them one by one moves those behind.
const maxFew = 128

func (k *kids) get(name string) *node {
	switch {
	case k == nil:
		return nil
	case k.many != nil:
		return k.many[name]
	}
	if i, is := k.find(name); is {
		return k.few[i]
	}
	return nil
}

// find returns where in few a name is, or would be.
func (k *kids) find(name string) (int, bool) {
	if n := len(k.few); n == 0 || k.few[n-1].name < name { // most come in order
		return n, false
	}
	return slices.BinarySearchFunc(k.few, name, func(n *node, name string) int { return strings.Compare(n.name, name) })
}

// put adds a node, or replaces the one with its name. The name does not change until cut.
func (k *kids) put(n *node) {
	if k.many == nil {
		i, is := k.find(n.name)
		if is {
			k.few[i] = n
			return
		}
		if len(k.few) < maxFew {
			k.few = slices.Insert(k.few, i, n)
			return
		}
		k.many = make(map[string]*node, 2*maxFew)
		for _, n := range k.few {
			k.many[n.name] = n
		}
		k.few = nil
	}
	k.many[n.name] = n
}

// cut removes a name, if it is there.
func (k *kids) cut(name string) {
	switch {
	case k == nil:
	case k.many != nil:
		delete(k.many, name)
	default:
		if i, is := k.find(name); is {
			k.few = slices.Delete(k.few, i, i+1)
		}
	}
}

func (k *kids) len() int {
	if k == nil {
		return 0
	}
	return len(k.few) + len(k.many)
}

// all returns the nodes in any order. They must stay the same meanwhile.
func (k *kids) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if k == nil {
			return
		}
		for _, n := range k.few {
			if !yield(n) {
				return
			}
		}
		for _, n := range k.many {
			if !yield(n) {
				return
			}
		}
	}
}
