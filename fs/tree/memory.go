package tree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
)

// NewMemory returns an empty Store that is gone with the program. It keeps one lock: a
// view waits for an update.
func NewMemory() Store {
	return &memory{
		spaces: map[string]Namespace{}, nodes: map[int64]Node{}, names: map[int64]map[string]Name{},
		parents: map[int64]map[Name]bool{}, parts: map[int64][]Part{}, refs: map[Hash]int{},
		chunks: map[Hash]memoryChunk{}, tombs: map[tombKey]Tomb{}, moves: map[int64][]Move{},
		peers: map[peerKey]Peer{},
	}
}

type (
	tombKey struct {
		ns   int64
		path string
	}
	peerKey struct {
		ns int64
		id string
	}
	memoryChunk struct {
		Chunk
		data []byte
	}
)

type memory struct {
	mu sync.RWMutex

	spaces  map[string]Namespace
	nodes   map[int64]Node
	names   map[int64]map[string]Name
	parents map[int64]map[Name]bool // of a node: its names, without their revisions
	parts   map[int64][]Part
	refs    map[Hash]int // how many parts name a chunk
	chunks  map[Hash]memoryChunk
	tombs   map[tombKey]Tomb
	moves   map[int64][]Move
	peers   map[peerKey]Peer

	lastIno, lastSpace int64
}

func (m *memory) View(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return fn(&memoryTx{memory: m})
}

func (m *memory) Update(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tx := &memoryTx{memory: m, writes: true}
	done := false
	defer func() { // fn may panic
		if !done {
			for _, undo := range slices.Backward(tx.undo) {
				undo()
			}
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	done = true
	return nil
}

// A memoryTx writes at once, and knows how to undo it.
type memoryTx struct {
	*memory
	writes bool
	undo   []func()
}

var errReadOnly = errors.New("a view cannot write")

// set changes a map and remembers what was there.
func set[K comparable, V any](tx *memoryTx, m map[K]V, k K, v V) error {
	if !tx.writes {
		return errReadOnly
	}
	restore(tx, m, k)
	m[k] = v
	return nil
}

func unset[K comparable, V any](tx *memoryTx, m map[K]V, k K) error {
	if !tx.writes {
		return errReadOnly
	}
	restore(tx, m, k)
	delete(m, k)
	return nil
}

func restore[K comparable, V any](tx *memoryTx, m map[K]V, k K) {
	old, had := m[k]
	tx.undo = append(tx.undo, func() {
		if had {
			m[k] = old
		} else {
			delete(m, k)
		}
	})
}

func get[K comparable, V any](m map[K]V, k K) (V, error) {
	v, ok := m[k]
	if !ok {
		return v, ErrNoRow
	}
	return v, nil
}

func (tx *memoryTx) Namespace(name string) (Namespace, error) { return get(tx.spaces, name) }

func (tx *memoryTx) Namespaces() ([]Namespace, error) {
	return slices.SortedFunc(maps.Values(tx.spaces), func(a, b Namespace) int { return cmp.Compare(a.ID, b.ID) }), nil
}

func (tx *memoryTx) PutNamespace(ns *Namespace) error {
	if ns.ID == 0 && tx.writes {
		tx.lastSpace++
		ns.ID = tx.lastSpace
	}
	return set(tx, tx.spaces, ns.Name, *ns)
}

func (tx *memoryTx) Node(ino int64) (Node, error) { return get(tx.nodes, ino) }

func (tx *memoryTx) Nodes(inos []int64, fn func(Node) error) error {
	for _, ino := range inos {
		if n, ok := tx.nodes[ino]; ok {
			if err := fn(Node{Ino: n.Ino, Kind: n.Kind, Mode: n.Mode, Size: n.Size, MTime: n.MTime, Target: n.Target}); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed is what a change stream needs of a node.
func changed(n *Node) Node { return Node{Ino: n.Ino, Kind: n.Kind, Rev: n.Rev, Stub: n.Stub} }

func (tx *memoryTx) PutNode(n *Node) error {
	if n.Ino == 0 && tx.writes {
		tx.lastIno++
		n.Ino = tx.lastIno
	}
	return set(tx, tx.nodes, n.Ino, *n)
}

func (tx *memoryTx) DeleteNode(ino int64) error {
	if err := tx.setParts(ino, nil); err != nil {
		return err
	}
	return unset(tx, tx.nodes, ino)
}

func (tx *memoryTx) NodesAfter(ns, rev int64, fn func(Child) error) error {
	for ino, n := range tx.nodes {
		if n.Namespace != ns || n.Rev <= rev {
			continue
		}
		list, err := tx.NamesOf(ino)
		if err != nil {
			return err
		}
		for _, name := range list {
			if name.Rev > rev {
				continue
			}
			if err := fn(Child{name, changed(&n)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) Lookup(parent int64, name string) (Child, error) {
	n, err := get(tx.names[parent], name)
	if err != nil {
		return Child{}, err
	}
	node, err := tx.Node(n.Child)
	return Child{n, node}, err
}

func (tx *memoryTx) Children(parent int64, after string, limit int) ([]Child, error) {
	var keys []string
	for name := range tx.names[parent] {
		if name > after {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	var list []Child
	for _, name := range keys[:min(limit, len(keys))] {
		c, err := tx.Lookup(parent, name)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func (tx *memoryTx) NamesOf(ino int64) ([]Name, error) {
	var list []Name
	for key := range tx.parents[ino] {
		list = append(list, tx.names[key.Parent][key.Name])
	}
	slices.SortFunc(list, func(a, b Name) int {
		return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

func (tx *memoryTx) PutName(n Name) error {
	if err := tx.DeleteName(n.Parent, n.Name); err != nil {
		return err
	}
	if tx.names[n.Parent] == nil {
		tx.names[n.Parent] = map[string]Name{}
	}
	if tx.parents[n.Child] == nil {
		tx.parents[n.Child] = map[Name]bool{}
	}
	if err := set(tx, tx.parents[n.Child], Name{Parent: n.Parent, Name: n.Name}, true); err != nil {
		return err
	}
	return set(tx, tx.names[n.Parent], n.Name, n)
}

func (tx *memoryTx) DeleteName(parent int64, name string) error {
	old, ok := tx.names[parent][name]
	if !ok {
		if !tx.writes {
			return errReadOnly
		}
		return nil
	}
	if err := unset(tx, tx.parents[old.Child], Name{Parent: parent, Name: name}); err != nil {
		return err
	}
	return unset(tx, tx.names[parent], name)
}

func (tx *memoryTx) NamesAfter(ns, rev int64, fn func(Child) error) error {
	for _, dir := range tx.names {
		for _, n := range dir {
			if n.Namespace != ns || n.Rev <= rev {
				continue
			}
			node := tx.nodes[n.Child]
			if err := fn(Child{n, changed(&node)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) Tomb(ns int64, path string) (Tomb, error) {
	return get(tx.tombs, tombKey{ns, path})
}

func (tx *memoryTx) PutTomb(ns int64, t Tomb) error {
	if old, ok := tx.tombs[tombKey{ns, t.Path}]; ok && old.Rev >= t.Rev {
		return nil
	}
	return set(tx, tx.tombs, tombKey{ns, t.Path}, t)
}

func (tx *memoryTx) TombsAfter(ns, rev int64, fn func(Tomb) error) error {
	for key, t := range tx.tombs {
		if key.ns == ns && t.Rev > rev {
			if err := fn(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) Moves(ns int64) ([]Move, error) { return slices.Clone(tx.moves[ns]), nil }

func (tx *memoryTx) PutMove(ns int64, m Move) error {
	return set(tx, tx.moves, ns, append(slices.Clone(tx.moves[ns]), m))
}

func (tx *memoryTx) DeleteMove(ns int64, m Move) error {
	return set(tx, tx.moves, ns, slices.DeleteFunc(slices.Clone(tx.moves[ns]), func(o Move) bool { return o == m }))
}

func (tx *memoryTx) Parts(ino int64) ([]Part, error) { return slices.Clone(tx.parts[ino]), nil }

func (tx *memoryTx) PartsOf(inos []int64, fn func(int64, Part) error) error {
	for _, ino := range inos {
		for _, p := range tx.parts[ino] {
			if err := fn(ino, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) PutFile(n *Node, _, parts []Part) error {
	if err := tx.PutNode(n); err != nil {
		return err
	}
	return tx.setParts(n.Ino, slices.Clone(parts))
}

func (tx *memoryTx) setParts(ino int64, list []Part) error {
	for _, p := range tx.parts[ino] {
		if err := set(tx, tx.refs, p.Hash, tx.refs[p.Hash]-1); err != nil {
			return err
		}
	}
	for _, p := range list {
		if err := set(tx, tx.refs, p.Hash, tx.refs[p.Hash]+1); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return unset(tx, tx.parts, ino)
	}
	return set(tx, tx.parts, ino, list)
}

func (tx *memoryTx) Chunk(h Hash) (Chunk, error) {
	c, err := get(tx.chunks, h)
	return c.Chunk, err
}

func (tx *memoryTx) ChunkBytes(h Hash, dst []byte) ([]byte, error) {
	c, err := get(tx.chunks, h)
	if err == nil && c.data == nil {
		err = ErrNoRow
	}
	return append(dst, c.data...), err
}

func (tx *memoryTx) PutChunk(h Hash, data []byte, now int64) (bool, error) {
	c, ok := tx.chunks[h]
	if !ok {
		c = memoryChunk{Chunk: Chunk{Hash: h, Size: int64(len(data)), Where: ChunkInline}, data: bytes.Clone(data)}
	}
	c.Seen, c.Dead = max(c.Seen, now), 0
	return !ok, set(tx, tx.chunks, h, c)
}

func (tx *memoryTx) PutPlaced(h Hash, size int64, at Place, now int64) (bool, error) {
	c, ok := tx.chunks[h]
	if !ok {
		c = memoryChunk{Chunk: Chunk{Hash: h, Size: size, Where: ChunkObject, At: at}}
	}
	c.Seen, c.Dead = max(c.Seen, now), 0
	return c.Where == ChunkObject && c.At == at, set(tx, tx.chunks, h, c)
}

func (tx *memoryTx) PlaceChunk(h Hash, at Place) error {
	c, ok := tx.chunks[h]
	if !ok {
		return ErrNoRow
	}
	c.Where, c.At, c.data = ChunkObject, at, nil
	return set(tx, tx.chunks, h, c)
}

func (tx *memoryTx) MarkChunk(h Hash, seen, dead int64) error {
	c, ok := tx.chunks[h]
	if !ok {
		return ErrNoRow
	}
	c.Seen, c.Dead = seen, dead
	return set(tx, tx.chunks, h, c)
}

func (tx *memoryTx) DeleteChunk(h Hash) error { return unset(tx, tx.chunks, h) }

func (tx *memoryTx) Referenced(h Hash) (bool, error) { return tx.refs[h] > 0, nil }

func (tx *memoryTx) Expect([]Hash) error { return nil }

func (tx *memoryTx) CountUses(hashes []Hash, limit int, fn func(h Hash, parts int) error) error {
	for _, h := range hashes {
		if n := tx.refs[h]; n > 0 {
			if err := fn(h, min(n, limit)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) Unreferenced(after Hash, seenBefore int64, limit int) ([]Chunk, error) {
	return tx.chunksAfter(after, seenBefore, limit, false), nil
}

func (tx *memoryTx) ReferencedChunks(after Hash, limit int) ([]Chunk, error) {
	return tx.chunksAfter(after, math.MaxInt64, limit, true), nil
}

func (tx *memoryTx) chunksAfter(after Hash, seenBefore int64, limit int, referenced bool) []Chunk {
	var list []Chunk
	for h, c := range tx.chunks {
		if bytes.Compare(h[:], after[:]) > 0 && c.Seen < seenBefore && (tx.refs[h] > 0) == referenced {
			list = append(list, c.Chunk)
		}
	}
	slices.SortFunc(list, func(a, b Chunk) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	return list[:min(limit, len(list))]
}

func (tx *memoryTx) Uses(h Hash, limit int) ([]Use, error) {
	var list []Use
	for ino, parts := range tx.parts {
		for i, p := range parts {
			if len(list) < limit && p.Hash == h {
				list = append(list, Use{ino, i})
			}
		}
	}
	return list, nil
}

func (tx *memoryTx) ChunksIn(object int64, limit int) ([]Chunk, error) {
	var list []Chunk
	for _, c := range tx.chunks {
		if c.Where == ChunkObject && c.At.Object == object {
			list = append(list, c.Chunk)
		}
	}
	slices.SortFunc(list, func(a, b Chunk) int { return cmp.Compare(a.At.Offset, b.At.Offset) })
	return list[:min(limit, len(list))], nil
}

func (tx *memoryTx) DeletePlaced(list []Object) ([]int64, error) {
	before, left := map[int64]int64{}, map[int64]bool{}
	for _, o := range list {
		before[o.Number] = o.Bytes
	}
	for h, c := range tx.chunks {
		if c.Where != ChunkObject {
			continue
		}
		if c.At.Offset >= before[c.At.Object] {
			left[c.At.Object] = true
		} else if err := unset(tx, tx.chunks, h); err != nil {
			return nil, err
		}
	}
	var empty []int64
	for _, o := range list {
		if !left[o.Number] {
			empty = append(empty, o.Number)
		}
	}
	return empty, nil
}

func (tx *memoryTx) Objects() ([]Object, error) {
	all := map[int64]int64{}
	for _, c := range tx.chunks {
		if c.Where == ChunkObject {
			all[c.At.Object] += c.Size
		}
	}
	var list []Object
	for number, size := range all {
		list = append(list, Object{number, size})
	}
	return list, nil
}

func (tx *memoryTx) Peer(ns int64, id string) (Peer, error) { return get(tx.peers, peerKey{ns, id}) }

func (tx *memoryTx) PutPeer(ns int64, p Peer) error { return set(tx, tx.peers, peerKey{ns, p.ID}, p) }

func (tx *memoryTx) EachNode(fn func(Node) error) error {
	for _, n := range tx.nodes {
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

func (tx *memoryTx) EachName(fn func(Name) error) error {
	for _, dir := range tx.names {
		for _, n := range dir {
			if err := fn(n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) EachPart(fn func(ino int64, index int, p Part) error) error {
	for _, ino := range slices.Sorted(maps.Keys(tx.parts)) {
		for i, p := range tx.parts[ino] {
			if err := fn(ino, i, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *memoryTx) EachChunk(fn func(c Chunk, stored int64) error) error {
	for _, c := range tx.chunks {
		stored := int64(-1)
		if c.data != nil {
			stored = int64(len(c.data))
		}
		if err := fn(c.Chunk, stored); err != nil {
			return err
		}
	}
	return nil
}

func (tx *memoryTx) EachPeer(fn func(ns int64, p Peer) error) error {
	for key, p := range tx.peers {
		if err := fn(key.ns, p); err != nil {
			return err
		}
	}
	return nil
}
