package computerwire

import (
	"fmt"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// HashOf makes a hash of its bytes.
func HashOf(b []byte) (h tree.Hash, err error) {
	if len(b) != len(h) {
		return h, &changes.Error{Code: "EINVAL", Err: fmt.Errorf("a hash of %d bytes", len(b))}
	}
	return tree.Hash(b), nil
}

// HashesOf makes hashes of their bytes.
func HashesOf(list [][]byte) ([]tree.Hash, error) {
	out := make([]tree.Hash, len(list))
	for i := range list {
		var err error
		if out[i], err = HashOf(list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// HashList is the form of a list of hashes.
func HashList(hashes []tree.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}

// Object is a tree.Data.
type Object struct {
	Hash  []byte `json:"hash"`
	Bytes []byte `json:"bytes"`
}

// ObjectOf is the form of an object.
func ObjectOf(d tree.Data) (*Object, error) { return &Object{d.Hash[:], d.Bytes}, nil }

// Tree is the object that o stands for. Whether the bytes have the hash is left to who
// keeps it.
func (o Object) Tree() (tree.Data, error) {
	h, err := HashOf(o.Hash)
	return tree.Data{Hash: h, Bytes: o.Bytes}, err
}
