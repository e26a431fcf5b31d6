package pack

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// An Encoder writes a pack.
type Encoder struct {
	zip    *gzip.Writer
	head   header
	began  bool
	digest digest
	count  Footer // the numbers so far
	buf    []byte
}

// NewEncoder returns what writes a pack to w, as fast as it can rather than as small.
func NewEncoder(w io.Writer, generation string) *Encoder {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // there is such a level
	}
	return &Encoder{zip: z, head: header{Version, generation}, digest: digestStart}
}

// Object writes an object: once in a pack, before the first entry that needs it.
func (e *Encoder) Object(d tree.Data) error {
	if len(d.Bytes) == 0 || len(d.Bytes) > tree.ChunkSize || e.count.ObjectCount == MaxObjects {
		return invalidf("object %d, of %d bytes", e.count.ObjectCount, len(d.Bytes))
	}
	e.count.ObjectCount++
	e.count.ObjectBytes += int64(len(d.Bytes))
	return e.record(tagObject, d.Hash[:], d.Bytes)
}

// Entry writes an entry.
func (e *Encoder) Entry(entry *protocol.ChangeEntry) error {
	var err error
	if e.buf, err = wire.Append(e.buf[:0], entry); err != nil {
		return err
	}
	if len(e.buf) > MaxEntry || e.count.EntryCount == MaxEntries {
		return invalidf("entry %d, of %d bytes", e.count.EntryCount, len(e.buf))
	}
	e.count.EntryCount++
	return e.record(tagEntry, e.buf)
}

// Close writes the footer, of which the cursors are looked at, and the end.
func (e *Encoder) Close(cursors Footer) error {
	f := e.count
	f.Version, f.Generation, f.Digest = e.head.Version, e.head.Generation, e.digest.String()
	f.After, f.BlockCursor, f.Target = cursors.After, cursors.BlockCursor, cursors.Target
	if err := e.json(tagFooter, &f); err != nil {
		return err
	}
	return e.zip.Close()
}

func (e *Encoder) json(tag byte, v any) error {
	b, err := wire.Append(nil, v)
	if err != nil {
		return err
	}
	if len(b) > MaxFrame {
		return invalidf("a header or footer of %d bytes", len(b))
	}
	return e.record(tag, b)
}

func (e *Encoder) record(tag byte, payload ...[]byte) error {
	if !e.began {
		e.began = true
		if len(e.head.Generation) > MaxGeneration {
			return invalidf("a generation of %d bytes", len(e.head.Generation))
		}
		if err := e.json(tagHeader, &e.head); err != nil {
			return err
		}
	}
	frame := [frameSize]byte{tag}
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	binary.BigEndian.PutUint32(frame[1:], uint32(n))
	for _, b := range append([][]byte{frame[:]}, payload...) {
		if tag == tagObject || tag == tagEntry {
			e.digest.add(b)
		}
		if _, err := e.zip.Write(b); err != nil {
			return err
		}
	}
	return nil
}
