package wire

// mapFrom is the number of keys from which an object's keys are looked up in a
// map. Below it comparing is faster.
const mapFrom = 16

// keySet holds the keys of the objects being scanned, innermost last, in one
// slice that a whole message shares.
type keySet struct {
	keys [][]byte
	// large holds the keys of an open object that has mapFrom or more, by the
	// object's mark.
	large map[int]map[string]struct{}
}

// open begins an object and returns its mark.
func (k *keySet) open() int { return len(k.keys) }

// close ends the object that mark began.
func (k *keySet) close(mark int) {
	k.keys = k.keys[:mark]
	if k.large != nil {
		delete(k.large, mark)
	}
}

// add reports whether key is new in the object that mark began.
func (k *keySet) add(mark int, key []byte) bool {
	own := k.keys[mark:]
	if len(own) < mapFrom {
		for _, other := range own {
			if string(other) == string(key) {
				return false
			}
		}
		k.keys = append(k.keys, key)
		return true
	}
	seen := k.large[mark]
	if seen == nil {
		seen = make(map[string]struct{}, 2*mapFrom)
		for _, other := range own {
			seen[string(other)] = struct{}{}
		}
		if k.large == nil {
			k.large = make(map[int]map[string]struct{})
		}
		k.large[mark] = seen
	}
	if _, dup := seen[string(key)]; dup {
		return false
	}
	seen[string(key)] = struct{}{}
	return true
}
