package seal

import (
	"bytes"
	"crypto/mlkem"
	"errors"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/flynn/noise"
)

var (
	testPrologue = Prologue{LabelReliable, "env", "registration", "stream"}
	errNoRandom  = iotest.ErrTimeout // any error will do
)

func newIdentityT(t testing.TB) *Identity {
	t.Helper()
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A pair is both ends of a handshake.
type pair struct {
	i *Initiator
	r *Responder
}

func newPair(t testing.TB) *pair {
	t.Helper()
	executor := newIdentityT(t)
	i, err := NewInitiator(newIdentityT(t), executor.Public(), testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResponder(executor, testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{i, r}
}

// message1 writes message 1 and reads it if read is set.
func (p *pair) message1(t testing.TB, payload string, read bool) []byte {
	t.Helper()
	m, err := p.i.WriteMessage1([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	if read {
		if _, got, err := p.r.ReadMessage1(m); err != nil || string(got) != payload {
			t.Fatalf("read message 1: %q, %v", got, err)
		}
	}
	return m
}

// transports makes the whole handshake.
func transports(t testing.TB) (i, r *Transport) {
	t.Helper()
	p := newPair(t)
	p.message1(t, "authorization", true)
	m, r, err := p.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	if i, err = p.i.ReadMessage2(m); err != nil {
		t.Fatal(err)
	}
	return i, r
}

// snapshot copies an initiator, so that message 2 can be read more than once.
func (i *Initiator) snapshot() *Initiator {
	c := *i
	cipher := *i.s.cipher
	c.s.cipher = &cipher
	return &c
}

func wantPeerError(t testing.TB, err error, want ...error) {
	t.Helper()
	peer, is := errors.AsType[*PeerError](err)
	if !is || !slices.ContainsFunc(want, func(w error) bool { return errors.Is(peer, w) }) {
		t.Errorf("error %v (%T), want a PeerError of %v", err, err, want)
	}
}

func wantMisuse(t testing.TB, err error) {
	t.Helper()
	if _, is := errors.AsType[*MisuseError](err); !is {
		t.Errorf("error %v (%T), want a MisuseError", err, err)
	}
	if _, is := errors.AsType[*PeerError](err); is {
		t.Errorf("error %v is the peer's fault too", err)
	}
}

func wantRefused(t testing.TB, tr *Transport, err error) {
	t.Helper()
	if tr != nil || !errors.Is(err, ErrRefused) {
		t.Errorf("transport %v, error %v; want %v", tr, err, ErrRefused)
	}
	if _, is := errors.AsType[*PeerError](err); is {
		t.Error("a refusal counts as the peer's fault")
	}
}

func TestHandshake(t *testing.T) {
	for _, payload := range []string{"", "x", "authorization", string(bytes.Repeat([]byte{0}, MaxMessage-Message1Overhead))} {
		p := newPair(t)
		m1 := p.message1(t, payload, true)
		if len(m1) != 3568+len(payload) {
			t.Errorf("message 1 has %d bytes with a payload of %d", len(m1), len(payload))
		}
		if !p.r.peer.Equal(p.i.own.Public()) {
			t.Error("the responder does not know who it is talking to")
		}
		m2, r, err := p.r.WriteMessage2()
		if err != nil || len(m2) != 3424 {
			t.Fatalf("message 2 has %d bytes, %v", len(m2), err)
		}
		i, err := p.i.ReadMessage2(m2)
		if err != nil {
			t.Fatal(err)
		}
		if i.Hash != r.Hash {
			t.Error("hashes differ")
		}
		talk(t, i, r)
		talk(t, r, i)
	}
}

// talk sends three records.
func talk(t testing.TB, from, to *Transport) {
	t.Helper()
	for _, text := range []string{"one", "", "three"} {
		seq := from.Sealer.Next()
		record, err := from.Sealer.Seal(nil, seq, []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := to.Opener.Open(nil, seq, record, nil); err != nil || string(got) != text {
			t.Fatalf("record %d: %q, %v; want %q", seq, got, err, text)
		}
	}
}

// No two handshakes of the same ends share anything.
func TestHandshakesDiffer(t *testing.T) {
	p := newPair(t)
	first := p.message1(t, "a", true)
	_, one, err := p.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewInitiator(p.i.own, p.i.peer, testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResponder(p.r.own, testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	q := &pair{i, r}
	second := q.message1(t, "a", true)
	_, two, err := q.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first[:32], second[:32]) || bytes.Equal(first[kemCipher:][:32], second[kemCipher:][:32]) {
		t.Error("two handshakes drew the same")
	}
	if one.Hash == two.Hash || one.Sealer.key() == two.Sealer.key() || one.Sealer.key() == one.Opener.key() {
		t.Error("keys or hashes are the same")
	}
}

func TestRefusal(t *testing.T) {
	p := newPair(t)
	p.message1(t, "authorization", true)
	m2, err := p.r.WriteRefusal()
	if err != nil || len(m2) != 3465 {
		t.Fatalf("refusal of %d bytes, %v", len(m2), err)
	}
	bad := slices.Clone(m2)
	bad[len(bad)-20] ^= 1
	_, err = p.i.snapshot().ReadMessage2(bad)
	wantPeerError(t, err, ErrAuthentication)

	tr, err := p.i.ReadMessage2(m2)
	wantRefused(t, tr, err)
	_, err = p.i.ReadMessage2(m2)
	wantMisuse(t, err)
	_, _, err = p.r.WriteMessage2()
	wantMisuse(t, err)
}

// A payload of message 2 that says neither yes nor no is a protocol error.
func TestUnknownPayload(t *testing.T) {
	for _, payload := range []string{"x", refusal[1:], refusal + " ", "codex-registry-authentication-rejected/v2"} {
		p := newPair(t)
		p.message1(t, "authorization", true)
		m2, err := p.r.answer("write message 2", payload)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := p.i.ReadMessage2(m2)
		if tr != nil {
			t.Errorf("payload %q made a transport", payload)
		}
		wantPeerError(t, err, ErrPayload)
	}
}

func TestLengths(t *testing.T) {
	p := newPair(t)
	m1 := p.message1(t, "", false)
	readers := map[string]struct {
		message []byte
		read    func(m []byte) error
	}{
		"message 1": {m1, func(m []byte) error {
			r, err := NewResponder(p.r.own, testPrologue)
			if err != nil {
				return err
			}
			_, _, err = r.ReadMessage1(m)
			return err
		}},
	}
	if _, _, err := p.r.ReadMessage1(m1); err != nil {
		t.Fatal(err)
	}
	m2, _, err := p.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	waiting := p.i.snapshot()
	readers["message 2"] = struct {
		message []byte
		read    func(m []byte) error
	}{m2, func(m []byte) error {
		_, err := waiting.snapshot().ReadMessage2(m)
		return err
	}}
	for name, r := range readers {
		n := len(r.message)
		for _, cut := range []int{0, 1, 15, 16, 32, 1087, 1088, 1089, 2192, 2304, 3408, n - 17, n - 16, n - 1} {
			t.Run(name+" truncated", func(t *testing.T) { wantPeerError(t, r.read(r.message[:cut]), ErrLength) })
		}
		for _, more := range []int{1, 16, 4096, MaxMessage - n} {
			t.Run(name+" extended", func(t *testing.T) {
				wantPeerError(t, r.read(append(slices.Clone(r.message), make([]byte, more)...)), ErrAuthentication)
			})
		}
		wantPeerError(t, r.read(append(slices.Clone(r.message), make([]byte, MaxMessage-n+1)...)), ErrLength)
		if err := r.read(r.message); err != nil {
			t.Errorf("%s whole: %v", name, err)
		}
	}
}

// Whatever the ends disagree on, message 1 does not authenticate.
func TestDisagreement(t *testing.T) {
	executor, harness := newIdentityT(t), newIdentityT(t)
	differ := func(change func(p *Prologue)) Prologue {
		p := testPrologue
		change(&p)
		return p
	}
	for name, p := range map[string]Prologue{
		"profile":      differ(func(p *Prologue) { p.Label = LabelCodex }),
		"environment":  differ(func(p *Prologue) { p.EnvironmentID = "env2" }),
		"registration": differ(func(p *Prologue) { p.RegistrationID = "" }),
		"stream":       differ(func(p *Prologue) { p.StreamID = "Stream" }),
		"shifted":      differ(func(p *Prologue) { p.EnvironmentID, p.RegistrationID = "envr", "egistration" }),
		"swapped":      differ(func(p *Prologue) { p.EnvironmentID, p.StreamID = "stream", "env" }),
	} {
		t.Run(name, func(t *testing.T) {
			i, err := NewInitiator(harness, executor.Public(), p)
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewResponder(executor, testPrologue)
			if err != nil {
				t.Fatal(err)
			}
			m1, err := i.WriteMessage1([]byte("authorization"))
			if err != nil {
				t.Fatal(err)
			}
			peer, payload, err := r.ReadMessage1(m1)
			if peer != nil || payload != nil {
				t.Error("something was read")
			}
			wantPeerError(t, err, ErrAuthentication)
		})
	}
}

// mixed has the X25519 key of one identity and the ML-KEM key of another.
func mixed(dh, kem *Identity) *Identity { return newIdentity(dh.dh, kem.kem) }

// The executor must have both halves of the key that the harness expects.
func TestWrongExecutor(t *testing.T) {
	executor, other := newIdentityT(t), newIdentityT(t)
	for name, expected := range map[string]*Identity{
		"both":   other,
		"X25519": mixed(other, executor),
		"ML-KEM": mixed(executor, other),
	} {
		t.Run(name, func(t *testing.T) {
			i, err := NewInitiator(newIdentityT(t), expected.Public(), testPrologue)
			if err != nil {
				t.Fatal(err)
			}
			m1, err := i.WriteMessage1(nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewResponder(executor, testPrologue)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = r.ReadMessage1(m1)
			wantPeerError(t, err, ErrAuthentication)
		})
	}
}

// The harness must have both halves of the key that it says it has.
func TestWrongHarness(t *testing.T) {
	t.Run("X25519", func(t *testing.T) {
		p := newPair(t)
		lie := *p.i.own
		lie.public = mixed(newIdentityT(t), p.i.own).Public()
		p.i.own = &lie
		m1 := p.message1(t, "", false)
		_, _, err := p.r.ReadMessage1(m1)
		wantPeerError(t, err, ErrAuthentication)
	})
	t.Run("ML-KEM", func(t *testing.T) {
		p := newPair(t)
		lie := *p.i.own
		lie.public = mixed(p.i.own, newIdentityT(t)).Public()
		p.i.own = &lie
		p.message1(t, "", true) // shows with message 2 only
		m2, _, err := p.r.WriteMessage2()
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.i.ReadMessage2(m2)
		wantPeerError(t, err, ErrAuthentication)
	})
}

// Message 2 answers one message 1 and no other.
func TestSwappedAnswers(t *testing.T) {
	p := newPair(t)
	q := &pair{}
	var err error
	if q.i, err = NewInitiator(p.i.own, p.i.peer, testPrologue); err != nil {
		t.Fatal(err)
	}
	if q.r, err = NewResponder(p.r.own, testPrologue); err != nil {
		t.Fatal(err)
	}
	p.message1(t, "", true)
	q.message1(t, "", true)
	m2, _, err := p.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.i.ReadMessage2(m2)
	wantPeerError(t, err, ErrAuthentication)
	// Nor is one's own message an answer.
	_, err = p.i.ReadMessage2(p.mirror(t))
	wantPeerError(t, err, ErrAuthentication)
}

// mirror is a message 1 of the pair's initiator.
func (p *pair) mirror(t testing.TB) []byte {
	t.Helper()
	i, err := NewInitiator(p.i.own, p.i.peer, testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	m, err := i.WriteMessage1(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A handshake is made once, and in order.
func TestTurns(t *testing.T) {
	p := newPair(t)
	_, err := p.i.ReadMessage2(make([]byte, Message2Overhead))
	wantMisuse(t, err)
	_, _, err = p.r.WriteMessage2()
	wantMisuse(t, err)
	_, err = p.r.WriteRefusal()
	wantMisuse(t, err)

	_, err = p.i.WriteMessage1(make([]byte, MaxMessage-Message1Overhead+1))
	wantMisuse(t, err) // and changes nothing

	m1 := p.message1(t, "", true)
	_, err = p.i.WriteMessage1(nil)
	wantMisuse(t, err)
	_, _, err = p.r.ReadMessage1(m1)
	wantMisuse(t, err)

	m2, r, err := p.r.WriteMessage2()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = p.r.WriteMessage2()
	wantMisuse(t, err)
	_, err = p.r.WriteRefusal()
	wantMisuse(t, err)
	_, _, err = p.r.ReadMessage1(m1)
	wantMisuse(t, err)

	i, err := p.i.ReadMessage2(m2)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.i.ReadMessage2(m2)
	wantMisuse(t, err)
	_, err = p.i.WriteMessage1(nil)
	wantMisuse(t, err)
	talk(t, i, r) // none of it did any harm
	talk(t, r, i)
}

// A handshake that failed stays failed, even if the true message follows.
func TestSpentAfterFailure(t *testing.T) {
	p := newPair(t)
	m1 := p.message1(t, "", false)
	_, _, err := p.r.ReadMessage1(m1[:100])
	wantPeerError(t, err, ErrLength)
	_, _, err = p.r.ReadMessage1(m1)
	wantMisuse(t, err)
	_, err = p.i.ReadMessage2(nil)
	wantPeerError(t, err, ErrLength)
	_, err = p.i.ReadMessage2(make([]byte, Message2Overhead))
	wantMisuse(t, err)
}

func TestBegin(t *testing.T) {
	id := newIdentityT(t)
	unlabelled := testPrologue
	unlabelled.Label = ""
	unknown := testPrologue
	unknown.Label = "wsd-relay-noise/reliable-2"
	for name, tt := range map[string]struct {
		own  *Identity
		peer *PublicKey
		p    Prologue
	}{
		"no identity":   {nil, id.Public(), testPrologue},
		"zero identity": {new(Identity), id.Public(), testPrologue},
		"no peer":       {id, nil, testPrologue},
		"zero peer":     {id, new(PublicKey), testPrologue},
		"no label":      {id, id.Public(), unlabelled},
		"unknown label": {id, id.Public(), unknown},
	} {
		t.Run(name, func(t *testing.T) {
			i, err := NewInitiator(tt.own, tt.peer, tt.p)
			if i != nil {
				t.Error("an initiator was made")
			}
			wantMisuse(t, err)
			if tt.own.usable() && tt.p == testPrologue {
				return // a responder needs no peer
			}
			r, err := NewResponder(tt.own, tt.p)
			if r != nil {
				t.Error("a responder was made")
			}
			wantMisuse(t, err)
		})
	}
}

// Zero is a point of low order: whatever the secret, the shared one would be zero.
func TestLowOrder(t *testing.T) {
	t.Run("executor's static", func(t *testing.T) {
		p := newPair(t)
		peer := *p.i.peer
		peer.dh = [32]byte{}
		p.i.peer = &peer
		m1, err := p.i.WriteMessage1(nil)
		if m1 != nil {
			t.Error("a message was written")
		}
		wantPeerError(t, err, ErrKey)
		_, err = p.i.WriteMessage1(nil)
		wantMisuse(t, err)
	})
	// The initiator deviates from here on, and reports the key that it sends.
	lies := map[string]func(i *Initiator){
		"harness's ephemeral": func(i *Initiator) {
			i.random.dh = func() (noise.DHKey, error) {
				k, err := suite.GenerateKeypair(nil)
				k.Public = make([]byte, 32)
				return k, err
			}
		},
		"harness's static": func(i *Initiator) {
			lie := *i.own
			public := *i.own.public
			public.dh = [32]byte{}
			lie.public = &public
			i.own = &lie
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			lie(p.i)
			m1 := p.message1(t, "", false)
			_, _, err := p.r.ReadMessage1(m1)
			wantPeerError(t, err, ErrKey)
		})
	}
	t.Run("executor's ephemeral", func(t *testing.T) {
		p := newPair(t)
		p.message1(t, "", true)
		m2, _, err := p.r.WriteMessage2()
		if err != nil {
			t.Fatal(err)
		}
		clear(m2[kemCipher+kemCipher+Overhead:][:32])
		_, err = p.i.ReadMessage2(m2)
		wantPeerError(t, err, ErrKey)
	})
}

// An ML-KEM key whose coefficients are out of range is refused, though it authenticates.
func TestImpossibleKEMKeys(t *testing.T) {
	executor, own := newIdentityT(t), newIdentityT(t)
	for _, which := range []string{"ephemeral", "static"} {
		t.Run(which, func(t *testing.T) {
			r, err := NewResponder(executor, testPrologue)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = r.ReadMessage1(forged(t, executor.Public(), own, which))
			wantPeerError(t, err, ErrKey)
			_, _, err = r.WriteMessage2()
			wantMisuse(t, err)
		})
	}
	if _, _, err := func() (*PublicKey, []byte, error) {
		r, err := NewResponder(executor, testPrologue)
		if err != nil {
			return nil, nil, err
		}
		return r.ReadMessage1(forged(t, executor.Public(), own, "neither"))
	}(); err != nil {
		t.Errorf("with honest keys: %v", err)
	}
}

// forged writes a message 1 as an initiator does, but for the ML-KEM key that bad names.
func forged(t *testing.T, executor *PublicKey, own *Identity, bad string) []byte {
	t.Helper()
	ephemeral, err := suite.GenerateKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string][]byte{"ephemeral": own.public.kem.Bytes(), "static": own.public.kem.Bytes()}
	if bad != "neither" {
		keys[bad] = bytes.Repeat([]byte{0xff}, kemSize)
	}
	s := newSymmetric(testPrologue, executor)
	shared, ciphertext := executor.kem.Encapsulate()
	m := s.encryptAndHash(nil, ciphertext)
	s.mixKeyAndHash(shared)
	s.mixHash(ephemeral.Public)
	s.mixHash(keys["ephemeral"])
	m = append(append(m, ephemeral.Public...), keys["ephemeral"]...)
	if err := s.mixDH("es", ephemeral, executor.dh[:]); err != nil {
		t.Fatal(err)
	}
	m = s.encryptAndHash(m, own.public.dh[:])
	m = s.encryptAndHash(m, keys["static"])
	if err := s.mixDH("ss", own.dh, executor.dh[:]); err != nil {
		t.Fatal(err)
	}
	return s.encryptAndHash(m, nil)
}

// Without randomness there is no handshake, and it is nobody's fault but the machine's.
func TestNoRandomness(t *testing.T) {
	noDH := func() (noise.DHKey, error) { return noise.DHKey{}, errNoRandom }
	noKEM := func() (*mlkem.DecapsulationKey768, error) { return nil, errNoRandom }
	for name, breakIt := range map[string]func(s *source){
		"X25519": func(s *source) { s.dh = noDH },
		"ML-KEM": func(s *source) { s.kem = noKEM },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			breakIt(&p.i.random)
			if _, err := p.i.WriteMessage1(nil); !errors.Is(err, errNoRandom) {
				t.Errorf("message 1: %v", err)
			}
			p = newPair(t)
			p.message1(t, "", true)
			breakIt(&p.r.random)
			m2, tr, err := p.r.WriteMessage2()
			if m2 != nil || tr != nil || !errors.Is(err, errNoRandom) {
				t.Errorf("message 2: %v", err)
			}
			_, _, err = p.r.WriteMessage2()
			wantMisuse(t, err)
		})
	}
}
