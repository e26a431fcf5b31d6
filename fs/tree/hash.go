package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// ChunkSize is the size in bytes of the windows in which content is kept. Window i of a
// file covers bytes [i*ChunkSize, (i+1)*ChunkSize); only the last may be shorter, and
// none is empty. Peers refuse any other cut.
const ChunkSize = 512 << 10

// A Hash is the SHA-256 of the bytes of a chunk, or of what its use says.
type Hash [sha256.Size]byte

// Sum is the hash of the bytes of a chunk.
func Sum(data []byte) Hash { return sha256.Sum256(data) }

// String is the hash in lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// A Part is one window of a file: what it hashes to and its size in bytes.
type Part struct {
	Hash Hash
	Size int64
}

// ManifestOf is the hash of a file's list of parts, which tells whether two files have
// the same content. It is taken over {"version":1,"chunks":[{"hash":"…","size":N},…]}
// without spaces.
func ManifestOf(parts []Part) Hash {
	b := make([]byte, 0, 32+len(parts)*(2*sha256.Size+32))
	b = append(b, `{"version":1,"chunks":[`...)
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"hash":"`...)
		b = hex.AppendEncode(b, p.Hash[:])
		b = append(b, `","size":`...)
		b = strconv.AppendInt(b, p.Size, 10)
		b = append(b, '}')
	}
	return sha256.Sum256(append(b, "]}"...))
}

// sizeOf is the size of the file that parts make up, or an ErrInvalid when they do not
// cut it as ChunkSize says.
func sizeOf(parts []Part) (int64, error) {
	if len(parts) == 0 {
		return 0, nil
	}
	last := len(parts) - 1
	for i, p := range parts {
		if p.Size < 1 || p.Size > ChunkSize || i < last && p.Size != ChunkSize {
			return 0, fmt.Errorf("%w: chunk %d of %d has %d bytes", ErrInvalid, i, len(parts), p.Size)
		}
	}
	return int64(last)*ChunkSize + parts[last].Size, nil
}

// Fingerprint is what Entry.Prior is of a delete that removes what e says; "" for a delete.
func Fingerprint(e *Entry) string {
	if e.Kind == KindDelete {
		return ""
	}
	return hex.EncodeToString(fingerprint(&Node{Kind: e.Kind, Mode: e.Mode, Target: e.Target, Manifest: ManifestOf(e.Parts)}))
}

// fingerprint identifies a version of a node that was removed: the SHA-256 of a compact
// JSON array, ["file",mode,"<manifest>"], ["symlink",mode,"<target>"] or ["dir",mode].
// A stub has none.
func fingerprint(n *Node) []byte {
	if n.Stub {
		return nil
	}
	var b []byte
	switch n.Kind {
	case KindFile:
		b = append(b, `["file",`...)
		b = strconv.AppendUint(b, uint64(n.Mode&ModeMask), 10)
		b = append(b, `,"`...)
		b = hex.AppendEncode(b, n.Manifest[:])
		b = append(b, '"')
	case KindSymlink:
		b = append(b, `["symlink",`...)
		b = strconv.AppendUint(b, uint64(n.Mode&ModeMask), 10)
		b = append(b, ',')
		b = appendQuoted(b, n.Target)
	default:
		b = append(b, `["dir",`...)
		b = strconv.AppendUint(b, uint64(n.Mode&ModeMask), 10)
	}
	sum := sha256.Sum256(append(b, ']'))
	return sum[:]
}

// appendQuoted appends s as JavaScript's JSON.stringify writes it, which escapes less
// than encoding/json does.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
