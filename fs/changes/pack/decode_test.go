package pack_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wsd-dev/wsd/fs/changes/pack"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// rec is one record as it stands in a pack.
func rec(tag byte, payload string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{tag}, uint32(len(payload)))
	return append(b, payload...)
}

const (
	headJSON = `{"version":1,"generation":"g1"}`
	dirJSON  = `{"kind":"dir","rev":2,"path":"/d","mode":493,"mtime":1000}`
)

// foot is a footer with a digest over some records.
func foot(entries, objects, size int, records ...[]byte) []byte {
	h := uint32(0x811c9dc5)
	for _, c := range bytes.Join(records, nil) {
		h = (h ^ uint32(c)) * 0x01000193
	}
	return rec(4, fmt.Sprintf(`{"version":1,"generation":"g1","after":{"rev":0,"path":null},"blockCursor":{"rev":3,"path":"/a"},"target":{"rev":3},"entryCount":%d,"objectCount":%d,"objectBytes":%d,"digest":"%x"}`, entries, objects, size, h))
}

func TestDecode(t *testing.T) {
	head, dir, obj := rec(1, headJSON), rec(3, dirJSON), rec(2, string(alpha.Hash[:])+"alpha")
	for name, p := range map[string][]byte{
		"empty":               zip(head, foot(0, 0, 0)),
		"an entry":            zip(head, dir, foot(1, 0, 0, dir)),
		"an object":           zip(head, obj, dir, foot(1, 1, 5, obj, dir)),
		"spaces in the JSON":  zip(rec(1, " {\"generation\" : \"g1\", \"version\":1, \"more\":[1] }\n"), foot(0, 0, 0)),
		"in two gzip members": append(zip(head, dir[:7]), zip(dir[7:], foot(1, 0, 0, dir))...),
	} {
		if _, err := read(p, "g1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	head, dir, obj := rec(1, headJSON), rec(3, dirJSON), rec(2, string(alpha.Hash[:])+"alpha")
	good := zip(head, dir, foot(1, 0, 0, dir))
	broken := bytes.Clone(good)
	broken[len(broken)-5] ^= 1 // of the checksum of gzip
	huge := func(tag byte, n uint32) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{tag}, n), make([]byte, 100)...)
	}
	for name, tt := range map[string]struct {
		pack []byte
		text string
	}{
		"nothing":                   {nil, "too early"},
		"no gzip":                   {[]byte("0123456789abcdef"), "invalid"},
		"an empty gzip":             {zip(), "too early"},
		"no header":                 {zip(dir, foot(1, 0, 0, dir)), "begins with"},
		"a second header":           {zip(head, head, foot(0, 0, 0)), "second header"},
		"another version":           {zip(rec(1, `{"version":2,"generation":"g1"}`), foot(0, 0, 0)), "version 2"},
		"no version":                {zip(rec(1, `{"generation":"g1"}`), foot(0, 0, 0)), "version"},
		"another generation":        {zip(rec(1, `{"version":1,"generation":"g2"}`), foot(0, 0, 0)), `"g2"`},
		"a header that is no JSON":  {zip(rec(1, `{"version":1,`), foot(0, 0, 0)), "no JSON"},
		"no footer":                 {zip(head, dir), "too early"},
		"a header only":             {zip(head), "too early"},
		"a frame cut off":           {zip(head, dir[:3]), "too early"},
		"a payload cut off":         {zip(head, dir[:9]), "too early"},
		"gzip cut off":              {good[:len(good)-8], "too early"},
		"a wrong checksum":          {broken, "checksum"},
		"more behind the footer":    {zip(head, dir, foot(1, 0, 0, dir), []byte{0}), "behind the footer"},
		"a record behind it":        {zip(head, foot(0, 0, 0), dir), "behind the footer"},
		"rubbish behind gzip":       {append(bytes.Clone(good), 'x'), "too early"},
		"rubbish like a header":     {append(bytes.Clone(good), "0123456789abcdef"...), "header"},
		"an unknown record":         {zip(head, rec(5, "x"), foot(0, 0, 0)), "kind 5"},
		"kind 0":                    {zip(head, rec(0, ""), foot(0, 0, 0)), "kind 0"},
		"too few entries":           {zip(head, dir, foot(2, 0, 0, dir)), "says 2"},
		"too many entries":          {zip(head, dir, dir, foot(1, 0, 0, dir, dir)), "2 entries"},
		"another number of objects": {zip(head, obj, foot(0, 2, 5, obj)), "says 0, 2"},
		"another size of objects":   {zip(head, obj, foot(0, 1, 6, obj)), "5 bytes"},
		"another digest":            {zip(head, dir, foot(1, 0, 0)), "digest"},
		"a digest with zeros":       {zip(head, rec(4, strings.Replace(string(foot(0, 0, 0)[5:]), `"digest":"`, `"digest":"0`, 1))), "digest"},
		"a footer of another pack":  {zip(head, rec(4, strings.Replace(string(foot(0, 0, 0)[5:]), "g1", "g2", 1))), `"g2"`},
		"a footer of a version":     {zip(head, rec(4, strings.Replace(string(foot(0, 0, 0)[5:]), `"version":1`, `"version":3`, 1))), "version 3"},
		"a footer without cursor":   {zip(head, rec(4, `{"version":1,"generation":"g1","entryCount":0,"objectCount":0,"objectBytes":0,"digest":"811c9dc5"}`)), "after"},
		"a long header":             {zip(rec(1, headJSON+strings.Repeat(" ", pack.MaxFrame))), "65567 bytes"},
		"a long object":             {zip(head, huge(2, 32+tree.ChunkSize+1)), "524321 bytes"},
		"an endless object":         {zip(head, huge(2, 1<<32-1)), "4294967295 bytes"},
		"an endless entry":          {zip(head, huge(3, 1<<32-1)), "4294967295 bytes"},
		"an object without bytes":   {zip(head, rec(2, string(alpha.Hash[:]))), "32 bytes"},
		"half a hash":               {zip(head, rec(2, "x")), "1 bytes"},
		"an entry that is no JSON":  {zip(head, rec(3, "x")), "no JSON"},
		"an entry that is no UTF-8": {zip(head, rec(3, "{\"kind\":\"dir\",\"rev\":1,\"path\":\"/\xff\"}")), "no JSON"},
		"an entry of another type":  {zip(head, rec(3, `{"kind":"dir","rev":"1","path":"/"}`)), "invalid type"},
		"an empty entry":            {zip(head, rec(3, "")), "no JSON"},
	} {
		_, err := read(tt.pack, "g1")
		if !errors.Is(err, pack.ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %q", name, err, tt.text)
		}
	}
}

// Every prefix of a pack, and every pack with a bit turned, is refused.
func TestDecodeDamage(t *testing.T) {
	good := vector(t)
	for n := range good {
		if _, err := read(good[:n], "g1"); !errors.Is(err, pack.ErrInvalid) {
			t.Fatalf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	for i := range good {
		if i >= 3 && i < 10 {
			continue // gzip's flags, time and system, of which some mean nothing
		}
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := read(bad, "g1"); !errors.Is(err, pack.ErrInvalid) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	raw := unzip(t, good)
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 0x10
		// Of the footer, what it says of cursors is nowhere else.
		if _, err := read(zip(bad), "g1"); err == nil && i < bytes.Index(raw, []byte(`{"rev":0,"path":null}`)) {
			t.Fatalf("byte %d: it was read", i)
		}
	}
}

// An error of what the pack comes from is itself, and not one of the pack.
func TestDecodeReaderFails(t *testing.T) {
	failure := errors.New("gone")
	for _, n := range []int{0, 5, 40, len(vector(t))} {
		d := pack.NewDecoder(io.MultiReader(bytes.NewReader(vector(t)[:n]), iotest.ErrReader(failure)), "g1")
		var err error
		for err == nil {
			_, err = d.Next()
		}
		if !errors.Is(err, failure) || errors.Is(err, pack.ErrInvalid) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	if _, err := read(vector(t), "g1"); err != nil {
		t.Error(err)
	}
	d := pack.NewDecoder(iotest.OneByteReader(bytes.NewReader(vector(t))), "g1")
	for n := range 5 {
		if _, err := d.Next(); (err != nil) != (n == 4) {
			t.Errorf("record %d: %v", n, err)
		}
	}
}

// What unfolds to gigabytes is given up, or read, with the memory of one record.
func TestDecodeBombs(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	measure := func() {
		runtime.GC()
		runtime.ReadMemStats(&after)
		peak = max(peak, after.HeapAlloc)
	}
	// An entry that is announced with all there may be, of a JSON string without end.
	bomb := append(binary.BigEndian.AppendUint32([]byte{3}, pack.MaxEntry), bytes.Repeat([]byte(" "), pack.MaxEntry)...)
	if _, err := read(zip(rec(1, headJSON), bomb), "g1"); !errors.Is(err, pack.ErrInvalid) {
		t.Error(err)
	}
	measure()
	// Objects that are nearly the same.
	z := zip(func() [][]byte {
		out := [][]byte{rec(1, headJSON)}
		data := make([]byte, 32+tree.ChunkSize)
		for range 40 {
			data[0]++
			out = append(out, rec(2, string(data)))
		}
		return out
	}()...)
	d := pack.NewDecoder(bytes.NewReader(z), "g1")
	n := 0
	for {
		r, err := d.Next()
		if err != nil {
			if !errors.Is(err, pack.ErrInvalid) || n != 40 {
				t.Errorf("%d objects, %v", n, err)
			}
			break
		}
		if n++; len(r.Object.Bytes) != tree.ChunkSize {
			t.Error(len(r.Object.Bytes))
		}
		if n%10 == 0 {
			measure()
		}
	}
	if len(z) > 1<<20 || peak > before.HeapAlloc+40<<20 {
		t.Errorf("%d bytes took %d of memory", len(z), peak-before.HeapAlloc)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, fn := range map[string]func(*pack.Encoder) error{
		"empty object": func(e *pack.Encoder) error { return e.Object(tree.Data{}) },
		"long object":  func(e *pack.Encoder) error { return e.Object(tree.Data{Bytes: make([]byte, tree.ChunkSize+1)}) },
		"long entry": func(e *pack.Encoder) error {
			return e.Entry(&protocol.ChangeEntry{Path: strings.Repeat("x", pack.MaxEntry)})
		},
		"long cursor": func(e *pack.Encoder) error {
			return e.Close(pack.Footer{After: protocol.Cursor{Path: ptr(strings.Repeat("x", pack.MaxFrame))}})
		},
	} {
		if err := fn(pack.NewEncoder(io.Discard, "g")); !errors.Is(err, pack.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pack.NewEncoder(io.Discard, strings.Repeat("g", pack.MaxGeneration+1)).Entry(&dirEntry); !errors.Is(err, pack.ErrInvalid) {
		t.Error(err)
	}
	failure := errors.New("full")
	if err := pack.NewEncoder(failWriter{failure}, "g").Close(cursors); !errors.Is(err, failure) {
		t.Error(err)
	}
}

type failWriter struct{ err error }

func (w failWriter) Write([]byte) (int, error) { return 0, w.err }

// FuzzDecode reads anything as the records of a pack, and zipped. What is accepted is
// written again and read as the same.
func FuzzDecode(f *testing.F) {
	head, dir, obj := rec(1, headJSON), rec(3, dirJSON), rec(2, string(alpha.Hash[:])+"alpha")
	f.Add(unzip(f, vector(f)), true)
	f.Add(bytes.Join([][]byte{head, foot(0, 0, 0)}, nil), true)
	f.Add(bytes.Join([][]byte{head, obj, dir, foot(1, 1, 5, obj, dir)}, nil), true)
	f.Add(vector(f), false)
	f.Add([]byte{0x1f, 0x8b}, false)
	f.Fuzz(func(t *testing.T, b []byte, zipped bool) {
		if zipped {
			b = zip(b)
		}
		all, err := read(b, "g1")
		if err != nil {
			if !errors.Is(err, pack.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		var buf bytes.Buffer
		e := pack.NewEncoder(&buf, "g1")
		for _, r := range all {
			switch {
			case r.Object != nil:
				err = e.Object(*r.Object)
			case r.Entry != nil:
				err = e.Entry(r.Entry)
			default:
				err = e.Close(*r.Footer)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		again, err := read(buf.Bytes(), "g1")
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d records became %d, %v", len(all), len(again), err)
		}
	})
}
