package seal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/flynn/noise"
	"pgregory.net/rapid"
)

// sealed returns n records of s, and what they say.
func sealed(t testing.TB, s *Sealer, n int) (records, texts [][]byte) {
	t.Helper()
	for range n {
		text := fmt.Appendf(nil, "record %d of a stream", s.Next())
		record, err := s.Seal(nil, s.Next(), text, nil)
		if err != nil {
			t.Fatal(err)
		}
		records, texts = append(records, record), append(texts, text)
	}
	return records, texts
}

func wantOpen(t testing.TB, o *Opener, record, want []byte) {
	t.Helper()
	if got, err := o.Open(nil, o.Next(), record, nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("open: %q, %v; want %q", got, err, want)
	}
}

// C-036: a changed record is dropped, the counter stays, the true record still opens;
// nobody else notices; a new stream can be opened.
func TestC036(t *testing.T) {
	i1, r1 := transports(t)
	i2, r2 := transports(t)
	ours, ourTexts := sealed(t, i1.Sealer, 4)
	foreign, foreignTexts := sealed(t, i2.Sealer, 4)

	flipped := func(r []byte, at int) []byte {
		r = slices.Clone(r)
		r[at] ^= 0x10
		return r
	}
	bad := map[string][]byte{
		"first bit":      flipped(ours[1], 0),
		"bit of tag":     flipped(ours[1], len(ours[1])-1),
		"15 bytes":       ours[1][:15],
		"no bytes":       {},
		"no tag":         ours[1][:len(ours[1])-16],
		"one byte less":  ours[1][:len(ours[1])-1],
		"one byte more":  append(slices.Clone(ours[1]), 0),
		"next record":    ours[2],
		"record before":  ours[0],
		"other stream":   foreign[1],
		"our own record": mustSeal(t, r1.Sealer, "echo"),
		"too long":       make([]byte, MaxRecord+1),
	}
	wantOpen(t, r1.Opener, ours[0], ourTexts[0])
	wantOpen(t, r2.Opener, foreign[0], foreignTexts[0])
	for name, record := range bad {
		t.Run(name, func(t *testing.T) {
			before := []byte("before")
			got, err := r1.Opener.Open(before, 1, record, nil)
			if _, is := errors.AsType[*PeerError](err); !is {
				t.Errorf("error %v, want a PeerError", err)
			}
			if !bytes.Equal(got, []byte("before")) {
				t.Errorf("returned %q", got)
			}
			if r1.Opener.Next() != 1 {
				t.Fatalf("the counter moved to %d", r1.Opener.Next())
			}
		})
	}
	for n := 1; n < 4; n++ {
		wantOpen(t, r1.Opener, ours[n], ourTexts[n])
		wantOpen(t, r2.Opener, foreign[n], foreignTexts[n])
	}
	i3, r3 := transports(t)
	talk(t, i3, r3)
	talk(t, r3, i3)
}

func mustSeal(t testing.TB, s *Sealer, text string) []byte {
	t.Helper()
	record, err := s.Seal(nil, s.Next(), []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// A number is sealed once and opened once, the next one only.
func TestNumbers(t *testing.T) {
	i, r := transports(t)
	records, texts := sealed(t, i.Sealer, 2)
	for _, seq := range []uint64{0, 1, 3, 1 << 40, 1<<64 - 1} {
		got, err := i.Sealer.Seal([]byte("x"), seq, []byte("again"), nil)
		wantMisuse(t, err)
		if string(got) != "x" || i.Sealer.Next() != 2 {
			t.Errorf("seal %d: %q, next %d", seq, got, i.Sealer.Next())
		}
	}
	for _, seq := range []uint64{1, 2, 1 << 40, 1<<64 - 1} {
		got, err := r.Opener.Open([]byte("x"), seq, records[0], nil)
		wantMisuse(t, err)
		if string(got) != "x" || r.Opener.Next() != 0 {
			t.Errorf("open %d: %q, next %d", seq, got, r.Opener.Next())
		}
	}
	wantOpen(t, r.Opener, records[0], texts[0])
	wantOpen(t, r.Opener, records[1], texts[1])
}

// At the limit the cipher refuses; it never wraps.
func TestExhaustion(t *testing.T) {
	i, r := transports(t)
	i.Sealer.cipher.SetNonce(noise.MaxNonce)
	r.Opener.cipher.SetNonce(noise.MaxNonce)
	last := mustSeal(t, i.Sealer, "last")
	wantOpen(t, r.Opener, last, []byte("last"))
	for range 3 {
		for _, seq := range []uint64{0, 1<<64 - 2, 1<<64 - 1} {
			if got, err := i.Sealer.Seal(nil, seq, []byte("more"), nil); got != nil || !errors.Is(err, ErrExhausted) {
				t.Errorf("seal %d: %x, %v; want %v", seq, got, err, ErrExhausted)
			}
			if got, err := r.Opener.Open(nil, seq, last, nil); got != nil || !errors.Is(err, ErrExhausted) {
				t.Errorf("open %d: %x, %v; want %v", seq, got, err, ErrExhausted)
			}
		}
		if i.Sealer.Next() != 1<<64-1 || r.Opener.Next() != 1<<64-1 {
			t.Fatalf("counters at %d and %d", i.Sealer.Next(), r.Opener.Next())
		}
	}
	talk(t, r, i) // the other direction has numbers left
}

func TestRecordLimits(t *testing.T) {
	i, r := transports(t)
	for _, n := range []int{0, 1, MaxPlaintext - 1, MaxPlaintext} {
		text := bytes.Repeat([]byte{'a'}, n)
		record := mustSeal(t, i.Sealer, string(text))
		if len(record) != n+16 {
			t.Errorf("record of %d bytes for %d", len(record), n)
		}
		wantOpen(t, r.Opener, record, text)
	}
	next := i.Sealer.Next()
	got, err := i.Sealer.Seal([]byte("x"), next, make([]byte, MaxPlaintext+1), nil)
	wantMisuse(t, err)
	if string(got) != "x" || i.Sealer.Next() != next {
		t.Errorf("returned %q, next %d", got, i.Sealer.Next())
	}
	// A peer that seals more is not listened to, even though it is authentic.
	long, err := i.Sealer.cipher.Encrypt(nil, nil, make([]byte, MaxPlaintext+1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Opener.Open(nil, next, long, nil)
	wantPeerError(t, err, ErrLength)
	if r.Opener.Next() != next {
		t.Errorf("the counter moved to %d", r.Opener.Next())
	}
}

// Records are made and opened where the caller wants them, without a copy.
func TestInPlace(t *testing.T) {
	i, r := transports(t)
	const head, text = "head", "the plaintext lies behind the head"
	buffer := make([]byte, 0, len(head)+len(text)+Overhead)
	buffer = append(append(buffer, head...), text...)
	out, err := i.Sealer.Seal(buffer[:len(head)], 0, buffer[len(head):], nil)
	if err != nil {
		t.Fatal(err)
	}
	if &out[0] != &buffer[0] || len(out) != cap(buffer) || string(out[:len(head)]) != head {
		t.Errorf("sealed elsewhere: %q", out)
	}
	record := out[len(head):]
	got, err := r.Opener.Open(record[:0], 0, record, nil)
	if err != nil || string(got) != text {
		t.Fatalf("opened %q, %v", got, err)
	}
	if &got[0] != &record[0] {
		t.Error("opened elsewhere")
	}
	// Appending keeps what is there.
	next := mustSeal(t, i.Sealer, " and more")
	if got, err = r.Opener.Open(got, 1, next, nil); err != nil || string(got) != text+" and more" {
		t.Errorf("appended %q, %v", got, err)
	}
}

// Additional data is authenticated like the record itself.
func TestAdditionalData(t *testing.T) {
	i, r := transports(t)
	record, err := i.Sealer.Seal(nil, 0, []byte("text"), []byte{0, 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, ad := range [][]byte{nil, {0}, {0, 3}, {1, 2}, {0, 2, 0}} {
		_, err := r.Opener.Open(nil, 0, record, ad)
		wantPeerError(t, err, ErrAuthentication)
	}
	if got, err := r.Opener.Open(nil, 0, record, []byte{0, 2}); err != nil || string(got) != "text" {
		t.Errorf("opened %q, %v", got, err)
	}
}

func TestAllocations(t *testing.T) {
	i, r := transports(t)
	text := make([]byte, MaxPlaintext)
	record := make([]byte, 0, MaxRecord)
	opened := make([]byte, 0, MaxRecord)
	n := testing.AllocsPerRun(50, func() {
		out, err := i.Sealer.Seal(record, i.Sealer.Next(), text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = r.Opener.Open(opened, r.Opener.Next(), out, nil); err != nil {
			t.Fatal(err)
		}
	})
	if n > 2 { // a nonce each, in flynn/noise
		t.Errorf("%v allocations to seal and open a record", n)
	}
}

// However many seal at once, no number is used twice.
func TestConcurrentUse(t *testing.T) {
	i, r := transports(t)
	const goroutines, each = 8, 50
	var mu sync.Mutex
	bySeq := map[uint64][]byte{}
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for done := 0; done < each; {
				seq := i.Sealer.Next()
				record, err := i.Sealer.Seal(nil, seq, fmt.Append(nil, seq), nil)
				if err != nil {
					wantMisuse(t, err) // somebody was faster
					continue
				}
				done++
				mu.Lock()
				if bySeq[seq] != nil {
					t.Errorf("number %d was used twice", seq)
				}
				bySeq[seq] = record
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	for seq := range uint64(goroutines * each) {
		wantOpen(t, r.Opener, bySeq[seq], fmt.Append(nil, seq))
	}
}

// Whatever is played to an Opener, it opens the sealed texts in order and nothing else.
func TestRecordsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		i, r := fixedTransports()
		texts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 100), 1, 10).Draw(rt, "texts")
		var records [][]byte
		for n, text := range texts {
			record, err := i.Seal(nil, uint64(n), text, nil)
			if err != nil {
				rt.Fatal(err)
			}
			records = append(records, record)
		}
		for opened, steps := 0, 0; opened < len(texts); steps++ {
			record := slices.Clone(records[rapid.IntRange(0, len(records)-1).Draw(rt, "record")])
			if steps > 50 {
				record = slices.Clone(records[opened])
			} else if rapid.Bool().Draw(rt, "alter") {
				record[rapid.IntRange(0, len(record)-1).Draw(rt, "at")] ^= rapid.ByteMin(1).Draw(rt, "with")
			}
			got, err := r.Open(nil, uint64(opened), record, nil)
			genuine := bytes.Equal(record, records[opened])
			if (err == nil) != genuine {
				rt.Fatalf("record %d: %v, genuine %v", opened, err, genuine)
			}
			if err == nil {
				if !bytes.Equal(got, texts[opened]) {
					rt.Fatalf("record %d: %x, want %x", opened, got, texts[opened])
				}
				opened++
			}
			if r.Next() != uint64(opened) {
				rt.Fatalf("counter %d after %d records", r.Next(), opened)
			}
		}
	})
}

// fixedTransports is one direction under a constant key.
func fixedTransports() (*Sealer, *Opener) {
	key := [32]byte{1, 2, 3}
	return &Sealer{cipher: noise.UnsafeNewCipherState(suite, key, 0)}, &Opener{cipher: noise.UnsafeNewCipherState(suite, key, 0)}
}
