package seal

import (
	"runtime"
	"slices"
	"sync"
	"testing"
)

// tamper calls try with message, changed in one bit, for every byte of it (see
// tamperStride), and with every bit of the bytes in full. It shares the work among the processors.
func tamper(t *testing.T, message []byte, full func(at int) bool, try func(m []byte) error) {
	t.Helper()
	workers := runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			m := slices.Clone(message)
			for at := w; at < len(m); at += workers {
				bits := []int{at % 8}
				switch {
				case full(at):
					bits = []int{0, 1, 2, 3, 4, 5, 6, 7}
				case at%tamperStride != 0:
					continue
				}
				for _, bit := range bits {
					m[at] ^= 1 << bit
					wantPeerError(t, try(m), ErrAuthentication, ErrKey)
					m[at] ^= 1 << bit
				}
				if t.Failed() {
					t.Logf("byte %d", at)
					return
				}
			}
			if err := try(m); err != nil {
				t.Errorf("as it was: %v", err)
			}
		})
	}
	wait.Wait()
}

func TestTamperedMessage1(t *testing.T) {
	p := newPair(t)
	m1 := p.message1(t, "authorization", false)
	// X25519 does not look at every bit of a key; the hash must.
	isKey := func(at int) bool { return at >= kemCipher && at < kemCipher+dhSize }
	tamper(t, m1, isKey, func(m []byte) error {
		r, err := NewResponder(p.r.own, testPrologue)
		if err != nil {
			return err
		}
		peer, payload, err := r.ReadMessage1(m)
		if err != nil && (peer != nil || payload != nil || r.progress != spent || r.s.cipher != nil) {
			t.Error("something is left of a message that was altered")
		}
		return err
	})
}

func TestTamperedMessage2(t *testing.T) {
	p := newPair(t)
	p.message1(t, "authorization", true)
	m2, _, err := p.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	waiting := p.i.snapshot()
	const key = kemCipher + kemCipher + Overhead
	isKey := func(at int) bool { return at >= key && at < key+dhSize }
	tamper(t, m2, isKey, func(m []byte) error {
		i := waiting.snapshot()
		tr, err := i.ReadMessage2(m)
		if err != nil && (tr != nil || i.progress != spent || i.s.cipher != nil || i.kem != nil) {
			t.Error("something is left of a message that was altered")
		}
		return err
	})
}
