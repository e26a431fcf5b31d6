package changes

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// spools counts what the entries that wait at a Server take.
type spools struct {
	dir           string
	most          int64 // a quarter of it for each spool, so that one peer leaves room
	total, memory atomic.Int64
}

// A spool keeps entries until all of them are there: the first in memory, the others in a
// temporary file that has no name any more. It is for one goroutine.
type spool struct {
	of    *spools
	count int
	size  int64
	mem   []byte
	file  *os.File
	buf   *bufio.Writer
	item  []byte
}

func (of *spools) open() *spool { return &spool{of: of} }

// close gives up what is kept.
func (s *spool) close() {
	s.of.total.Add(-s.size)
	s.of.memory.Add(-int64(len(s.mem)))
	s.size, s.mem = 0, nil
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name()) //nolint:errcheck // It is gone already where that can be.
		s.file = nil
	}
}

// add keeps an entry. What it points to is not kept.
func (s *spool) add(e *tree.Entry) error {
	s.item = appendEntry(s.item[:0], e)
	n := int64(len(s.item))
	if own := s.of.most / 4; s.size+n > own {
		return protocolErrorf("more than %d bytes of entries", own)
	}
	if s.of.total.Add(n) > s.of.most {
		s.of.total.Add(-n)
		return protocolErrorf("more than %d bytes of entries wait", s.of.most)
	}
	s.size += n
	s.count++
	if s.file == nil {
		if int64(len(s.mem))+n <= spoolOwn && s.of.memory.Add(n) <= spoolMemory {
			s.mem = append(s.mem, s.item...)
			return nil
		}
		if int64(len(s.mem))+n <= spoolOwn {
			s.of.memory.Add(-n)
		}
		if err := s.spill(); err != nil {
			return err
		}
	}
	_, err := s.buf.Write(s.item)
	return wrapf(err, "spool entries")
}

// spill starts the file.
func (s *spool) spill() error {
	f, err := os.CreateTemp(s.of.dir, "wsd-entries-*")
	if err != nil {
		return fmt.Errorf("spool entries: %w", err)
	}
	os.Remove(f.Name()) //nolint:errcheck // Where an open file cannot be removed, close does.
	s.file, s.buf = f, bufio.NewWriterSize(f, 64<<10)
	return nil
}

// all gives the entries in their order. It can be called more than once, but nothing may
// be added any more.
func (s *spool) all() iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		var err error
		var in io.Reader = bytes.NewReader(s.mem)
		if s.file != nil {
			if err = s.buf.Flush(); err != nil {
				yield(tree.Entry{}, fmt.Errorf("spool entries: %w", err))
				return
			}
			in = io.MultiReader(in, io.NewSectionReader(s.file, 0, s.size-int64(len(s.mem))))
		}
		r := entryReader{in: bufio.NewReaderSize(in, 64<<10)}
		for range s.count {
			e := r.entry()
			if r.err != nil {
				yield(e, fmt.Errorf("read spooled entries: %w", r.err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func wrapf(err error, doing string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// appendEntry writes an entry as it is spooled.
func appendEntry(b []byte, e *tree.Entry) []byte {
	b = append(b, byte(e.Kind))
	b = binary.AppendVarint(b, e.Rev)
	b = appendText(b, e.Path)
	if e.Kind == tree.KindDelete {
		return appendText(appendText(b, e.Prior), e.RenamedTo)
	}
	b = binary.AppendUvarint(b, uint64(e.Mode))
	b = binary.AppendVarint(b, e.MTime.Unix())
	b = binary.AppendUvarint(b, uint64(e.MTime.Nanosecond()))
	switch e.Kind {
	case tree.KindSymlink:
		b = appendText(b, e.Target)
	case tree.KindFile:
		b = binary.AppendVarint(b, e.Size)
		b = binary.AppendUvarint(b, uint64(len(e.Parts)))
		for i := range e.Parts {
			b = append(b, e.Parts[i].Hash[:]...)
			b = binary.AppendVarint(b, e.Parts[i].Size)
		}
	default:
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// An entryReader reads what appendEntry wrote. The first error stays.
type entryReader struct {
	in  *bufio.Reader
	err error
}

func (r *entryReader) entry() tree.Entry {
	kind := [1]byte{}
	r.full(kind[:])
	e := tree.Entry{Kind: tree.Kind(kind[0]), Rev: r.int(), Path: r.text()}
	if e.Kind == tree.KindDelete {
		e.Prior, e.RenamedTo = r.text(), r.text()
		return e
	}
	e.Mode = uint32(r.uint())
	sec := r.int()
	e.MTime = time.Unix(sec, int64(r.uint()))
	switch e.Kind {
	case tree.KindSymlink:
		e.Target = r.text()
	case tree.KindFile:
		e.Size = r.int()
		if n := r.uint(); n > 0 && r.err == nil {
			e.Parts = make([]tree.Part, n)
			for i := range e.Parts {
				r.full(e.Parts[i].Hash[:])
				e.Parts[i].Size = r.int()
			}
		}
	default:
	}
	return e
}

func (r *entryReader) int() int64 {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(r.in)
	r.err = err
	return n
}

func (r *entryReader) uint() uint64 {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(r.in)
	r.err = err
	return n
}

func (r *entryReader) full(b []byte) {
	if r.err == nil {
		_, r.err = io.ReadFull(r.in, b)
	}
}

func (r *entryReader) text() string {
	b := make([]byte, r.uint())
	r.full(b)
	return string(b)
}
