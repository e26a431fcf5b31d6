package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A Decoder reads a pack. It refuses, with ErrInvalid, what is not exactly one: another
// version or generation, records out of order or of an unknown kind, one longer than there
// may be, JSON that is none, counts or a digest that differ from the footer's, an end
// that is missing or not the end. Whether objects have their hashes, and entries make
// sense, is left to whoever takes them.
type Decoder struct {
	in    source
	zip   *gzip.Reader
	gen   string
	sum   digest
	count Footer // the numbers so far
	buf   bytes.Buffer
	done  bool
	err   error
}

// NewDecoder returns what reads the pack of a generation from r.
func NewDecoder(r io.Reader, generation string) *Decoder {
	return &Decoder{in: source{r: r}, gen: generation, sum: digestStart}
}

// A source remembers an error of its own that is not the end.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Next returns the next record, whose bytes belong to the caller. After the footer, with
// which all was found to be right, comes io.EOF. What is not ErrInvalid is an error of
// the reader that the pack comes from. An error stays.
func (d *Decoder) Next() (Record, error) {
	if d.err != nil {
		return Record{}, d.err
	}
	if d.done {
		return Record{}, io.EOF
	}
	rec, err := d.next()
	switch {
	case err == nil:
		return rec, nil
	case d.in.err != nil:
		err = d.in.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = invalidf("it ends too early")
	case !errors.Is(err, ErrInvalid):
		err = invalidf("%w", err)
	}
	d.err = err
	return Record{}, err
}

func (d *Decoder) next() (Record, error) {
	if d.zip == nil {
		if err := d.begin(); err != nil {
			return Record{}, err
		}
	}
	tag, payload, err := d.record()
	if err != nil {
		return Record{}, err
	}
	switch tag {
	case tagObject:
		return d.object(payload)
	case tagEntry:
		if d.count.EntryCount++; d.count.EntryCount > MaxEntries {
			return Record{}, invalidf("more than %d entries", MaxEntries)
		}
		var e protocol.ChangeEntry
		return Record{Entry: &e}, decodeJSON(payload, &e)
	case tagFooter:
		return d.footer(payload)
	}
	return Record{}, invalidf("a second header")
}

// begin reads the header.
func (d *Decoder) begin() error {
	var err error
	if d.zip, err = gzip.NewReader(&d.in); err != nil {
		d.zip = nil
		return err
	}
	tag, payload, err := d.record()
	if err != nil {
		return err
	}
	if tag != tagHeader {
		return invalidf("it begins with a record of kind %d", tag)
	}
	var h header
	if err := decodeJSON(payload, &h); err != nil {
		return err
	}
	return d.check(h)
}

func (d *Decoder) check(h header) error {
	if h.Version != Version {
		return invalidf("version %d", h.Version)
	}
	if h.Generation != d.gen {
		return invalidf("it is of generation %.*q, not %.*q", MaxGeneration, h.Generation, MaxGeneration, d.gen)
	}
	return nil
}

// record reads one. The payload is good until the next.
func (d *Decoder) record() (byte, []byte, error) {
	var frame [frameSize]byte
	if _, err := io.ReadFull(d.zip, frame[:]); err != nil {
		return 0, nil, err
	}
	tag, n := frame[0], int64(binary.BigEndian.Uint32(frame[1:]))
	var most int64
	switch tag {
	case tagHeader, tagFooter:
		most = MaxFrame
	case tagObject:
		most = int64(len(tree.Hash{})) + tree.ChunkSize
	case tagEntry:
		most = MaxEntry
	default:
		return 0, nil, invalidf("a record of kind %d", tag)
	}
	if n > most {
		return 0, nil, invalidf("a record of kind %d with %d bytes", tag, n)
	}
	// The buffer grows with what comes, not with what is announced.
	d.buf.Reset()
	if _, err := io.CopyN(&d.buf, d.zip, n); err != nil {
		return 0, nil, err
	}
	if tag == tagObject || tag == tagEntry {
		d.sum.add(frame[:])
		d.sum.add(d.buf.Bytes())
	}
	return tag, d.buf.Bytes(), nil
}

func (d *Decoder) object(payload []byte) (Record, error) {
	var o tree.Data
	if len(payload) <= len(o.Hash) {
		return Record{}, invalidf("an object record of %d bytes", len(payload))
	}
	if d.count.ObjectCount++; d.count.ObjectCount > MaxObjects {
		return Record{}, invalidf("more than %d objects", MaxObjects)
	}
	o.Bytes = bytes.Clone(payload[copy(o.Hash[:], payload):])
	d.count.ObjectBytes += int64(len(o.Bytes))
	return Record{Object: &o}, nil
}

func (d *Decoder) footer(payload []byte) (Record, error) {
	var f Footer
	if err := decodeJSON(payload, &f); err != nil {
		return Record{}, err
	}
	if err := d.check(header{f.Version, f.Generation}); err != nil {
		return Record{}, err
	}
	c := &d.count
	if f.EntryCount != c.EntryCount || f.ObjectCount != c.ObjectCount || f.ObjectBytes != c.ObjectBytes {
		return Record{}, invalidf("it has %d entries and %d objects with %d bytes, and says %d, %d and %d",
			c.EntryCount, c.ObjectCount, c.ObjectBytes, f.EntryCount, f.ObjectCount, f.ObjectBytes)
	}
	if f.Digest != d.sum.String() {
		return Record{}, invalidf("its digest is %s, and it says %.32q", d.sum, f.Digest)
	}
	var more [1]byte
	if n, err := io.ReadFull(d.zip, more[:]); n > 0 {
		return Record{}, invalidf("there is more behind the footer")
	} else if !errors.Is(err, io.EOF) {
		return Record{}, err
	}
	d.done = true
	return Record{Footer: &f}, nil
}

func decodeJSON(raw []byte, v any) error {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return invalidf("a record that is no JSON")
	}
	if err := wire.Unmarshal(raw, v); err != nil {
		return invalidf("%w", err)
	}
	return nil
}
