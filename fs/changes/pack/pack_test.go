package pack_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/wsd-dev/wsd/fs/changes/pack"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

func ptr[T any](v T) *T { return &v }

var (
	alpha    = tree.Data{Hash: tree.Sum([]byte("alpha")), Bytes: []byte("alpha")}
	dirEntry = protocol.ChangeEntry{Kind: "dir", Rev: 2, Path: "/d", Mode: ptr[int64](493), MTime: ptr[protocol.Milliseconds](1000)}
	file     = protocol.ChangeEntry{
		Kind: "file", Rev: 3, Path: "/d/a", Mode: ptr[int64](420), MTime: ptr[protocol.Milliseconds](2000), Size: ptr[int64](5),
		Chunks: &[]protocol.ChangeChunk{{Hash: alpha.Hash.String(), Size: 5}},
	}
	cursors = pack.Footer{BlockCursor: protocol.Cursor{Rev: 3}, Target: protocol.Cursor{Rev: 3}}
)

// vector is the pack of sync.md section 12.
func vector(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	e := pack.NewEncoder(&buf, "g1")
	if err := errors.Join(e.Entry(&dirEntry), e.Object(alpha), e.Entry(&file), e.Close(cursors)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func unzip(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// zipper is used again and again, since a new one takes longer than most packs here.
var zipper = gzip.NewWriter(io.Discard)

func zip(b ...[]byte) []byte {
	var buf bytes.Buffer
	zipper.Reset(&buf)
	for _, b := range b {
		if _, err := zipper.Write(b); err != nil {
			panic(err)
		}
	}
	if err := zipper.Close(); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

// read reads a pack to its end.
func read(b []byte, generation string) ([]pack.Record, error) {
	d := pack.NewDecoder(bytes.NewReader(b), generation)
	var all []pack.Record
	for {
		r, err := d.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			if _, again := d.Next(); again != err { //nolint:errorlint // The same one.
				return all, errors.New("the error does not stay")
			}
			return all, err
		}
		all = append(all, r)
	}
}

func TestVector(t *testing.T) {
	zipped := vector(t)
	raw := unzip(t, zipped)
	if len(raw) != 512 {
		t.Errorf("it has %d bytes, want 512", len(raw))
	}
	text := hex.EncodeToString(raw)
	object := "0200000025" + alpha.Hash.String() + "616c706861"
	if !strings.HasPrefix(text, "010000001f7b2276657273696f6e223a312c") || !strings.Contains(text, object) {
		t.Errorf("the bytes are %s", text)
	}
	if want := `"digest":"32d4c04c"}`; !bytes.HasSuffix(raw, []byte(want)) {
		t.Errorf("it ends with %s, want %s", raw[len(raw)-len(want):], want)
	}
	got, err := read(zipped, "g1")
	footer := cursors
	footer.Version, footer.Generation, footer.Digest = 1, "g1", "32d4c04c"
	footer.EntryCount, footer.ObjectCount, footer.ObjectBytes = 2, 1, 5
	want := []pack.Record{{Entry: &dirEntry}, {Object: &alpha}, {Entry: &file}, {Footer: &footer}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestDigestHasNoLeadingZeros(t *testing.T) {
	for n := range 1000 {
		e := dirEntry
		e.Rev = int64(n)
		var buf bytes.Buffer
		enc := pack.NewEncoder(&buf, "g")
		if err := errors.Join(enc.Entry(&e), enc.Close(cursors)); err != nil {
			t.Fatal(err)
		}
		all, err := read(buf.Bytes(), "g")
		if err != nil {
			t.Fatal(err)
		}
		digest := all[len(all)-1].Footer.Digest
		if digest == "" || digest[0] == '0' {
			t.Fatalf("digest %q", digest)
		}
		if len(digest) < 8 {
			return
		}
	}
	t.Error("no short digest in 1000 packs")
}
