package rendezvous_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/sqlstate"
	"github.com/wsd-dev/wsd/relay/seal"
)

// eachState runs test over the States of one node.
func eachState(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, newWorld(t, nil)) })
	t.Run("sqlite", func(t *testing.T) {
		state, err := sqlstate.Open(t.Context(), sqlstate.Config{Path: filepath.Join(t.TempDir(), "relay.db")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = state.Close() })
		test(t, newWorld(t, state))
	})
}

// executorToken makes a token for env.
func (w *world) executorToken(env string) string {
	return w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: env})
}

// A socket is one whose connection can be cut without a word.
type socket struct {
	relay.Carrier
	cut func()
}

// attempt tries to attach.
func (w *world) attempt(url string) (socket, error) {
	w.t.Helper()
	var s socket
	carrier, err := relay.Dial(w.t.Context(), url, relay.DialConfig{NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			s.cut = func() { _ = conn.Close() }
		}
		return conn, err
	}})
	s.Carrier = carrier
	if err == nil {
		w.t.Cleanup(func() { _ = carrier.Close() })
	}
	return s, err
}

// prove registers and attaches an executor that proves that it has id.
func (w *world) prove(token string, r registry.Registrant) (*registry.RegisterResponse, socket) {
	w.t.Helper()
	reg, err := w.client(token).RegisterProved(w.t.Context(), lab, r)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(reg.Challenge) == 0 {
		w.t.Fatal("no challenge")
	}
	s, err := w.attempt(reg.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	return reg, s
}

// conflict fails the test if err is not a 409 with that code.
func conflict(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got, code := status(t, err); got != http.StatusConflict || code != want {
		t.Errorf("%s: %d %s, want 409 %s", what, got, code, want)
	}
}

// notLetIn fails the test if a socket gets in with url.
func (w *world) notLetIn(what, url string) {
	w.t.Helper()
	s, err := w.attempt(url)
	if err == nil {
		_ = s.Close()
		w.t.Errorf("%s: let in", what)
		return
	}
	if refused, ok := errors.AsType[*relay.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized {
		w.t.Errorf("%s: %v", what, err)
	}
}

// registerRaw registers a key with headers of the caller's choice.
func (w *world) registerRaw(token string, key *seal.PublicKey, header http.Header) (*registry.RegisterResponse, int) {
	w.t.Helper()
	body, err := json.Marshal(registry.RegisterRequest{SecurityProfile: registry.SecurityProfile, ExecutorPublicKey: key})
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/cloud/environment/"+lab+"/register", strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = header
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := new(registry.RegisterResponse)
	if resp.StatusCode == http.StatusOK {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return out, resp.StatusCode
}

// S-R1: who has only the public key of an attached executor does not get its place, not
// in steps either, whatever token he has.
func TestSR1CopiedKey(t *testing.T) {
	eachState(t, func(t *testing.T, w *world) {
		victim, own := identity(t), identity(t)
		w.echo(victim)
		seen := w.connect(identity(t)) // by which the key gets around
		conn, err := w.harness(frame.Reliable).Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, env := range []string{lab, "*"} {
			token := w.executorToken(env)
			c := w.client(token)
			_, err := c.Register(t.Context(), lab, own.Public())
			conflict(t, "own key", err, registry.CodeInUse)
			_, err = c.Register(t.Context(), lab, seen.ExecutorPublicKey)
			conflict(t, "the victim's key", err, registry.CodeInUse)
			// As one that says that it can prove the key.
			claimed, got := w.registerRaw(token, seen.ExecutorPublicKey, http.Header{registry.HeaderInstance: {"mallory"}})
			if got != http.StatusOK {
				t.Fatalf("a claim to have the key: %d", got)
			}
			if _, err := registry.AnswerChallenge(own, lab, claimed.ExecutorRegistrationID, claimed.Challenge); err == nil {
				t.Error("another key answers the challenge")
			}
			w.notLetIn("without a proof", claimed.URL)
			w.notLetIn("with a guess", claimed.URL+"&proof=guess")
			// The proof of another registration, with a key of the attacker's own.
			mine, _, err := registry.NewChallenge(own, own.Public(), lab, claimed.ExecutorRegistrationID)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := registry.AnswerChallenge(own, lab, claimed.ExecutorRegistrationID, mine)
			if err != nil {
				t.Fatal(err)
			}
			w.notLetIn("with another's proof", claimed.URL+"&proof="+url.QueryEscape(answer))
			_, err = c.Register(t.Context(), lab, own.Public())
			conflict(t, "own key after the victim's", err, registry.CodeInUse)
			_, err = c.RegisterProved(t.Context(), lab, registry.Registrant{Identity: own, Instance: "mallory"})
			conflict(t, "own key with a proof", err, registry.CodeInUse)
		}
		if now := w.connect(identity(t)); now.ExecutorRegistrationID != seen.ExecutorRegistrationID || !now.ExecutorPublicKey.Equal(victim.Public()) {
			t.Error("the registration has changed")
		}
		if err := conn.Write(t.Context(), []byte("still here")); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.Read(t.Context()); err != nil || string(got) != "still here" {
			t.Errorf("the victim's stream: %q, %v", got, err)
		}
	})
}

// S-R1: an executor that proves nothing, as codex's, is replaced by its own token alone,
// or by a proof of its key.
func TestSR1ExecutorWithoutProof(t *testing.T) {
	eachState(t, func(t *testing.T, w *world) {
		key, token := identity(t), w.executorToken(lab)
		plain := func() (*registry.RegisterResponse, socket) {
			t.Helper()
			reg, err := w.client(token).Register(t.Context(), lab, key.Public())
			if err != nil {
				t.Fatal(err)
			}
			if reg.Challenge != nil {
				t.Error("an executor that does not ask for it gets a challenge")
			}
			s, err := w.attempt(reg.URL)
			if err != nil {
				t.Fatal(err)
			}
			return reg, s
		}
		first, before := plain()
		w.connect(identity(t))
		for _, env := range []string{lab, "*"} {
			_, err := w.client(w.executorToken(env)).Register(t.Context(), lab, key.Public())
			conflict(t, "another token", err, registry.CodeInUse)
		}
		second, before2 := plain()
		ends(t, before)
		w.notLetIn("the URL of before", first.URL)
		if got := w.connect(identity(t)).ExecutorRegistrationID; got != second.ExecutorRegistrationID {
			t.Errorf("harnesses are told of %s", got)
		}
		third, _ := w.prove(w.executorToken(lab), registry.Registrant{Identity: key, Instance: "a"})
		ends(t, before2)
		if got := w.connect(identity(t)).ExecutorRegistrationID; got != third.ExecutorRegistrationID {
			t.Errorf("harnesses are told of %s", got)
		}
		_, err := w.client(token).Register(t.Context(), lab, key.Public())
		conflict(t, "no proof after a proof", err, registry.CodeInUse)
	})
}

// S-R1: the one that is attached counts until the next has attached and proved itself.
func TestSR1HolderCounts(t *testing.T) {
	eachState(t, func(t *testing.T, w *world) {
		key := identity(t)
		first, before := w.prove(w.executorToken(lab), registry.Registrant{Identity: key, Instance: "a"})
		w.connect(identity(t))
		next, err := w.client(w.executorToken(lab)).RegisterProved(t.Context(), lab, registry.Registrant{Identity: key, Instance: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.connect(identity(t)).ExecutorRegistrationID; got != first.ExecutorRegistrationID {
			t.Errorf("harnesses are told of %s", got)
		}
		if _, err := w.attempt(next.URL); err != nil {
			t.Fatal(err)
		}
		ends(t, before)
		if got := w.connect(identity(t)).ExecutorRegistrationID; got != next.ExecutorRegistrationID {
			t.Errorf("harnesses are told of %s", got)
		}
		if _, err := w.attempt(next.URL); err != nil {
			t.Errorf("the same URL again: %v", err)
		}
	})
}

// S-R1: an executor that was cut off keeps its place for a moment, in steps too; one that
// says goodbye does not.
func TestSR1Lapse(t *testing.T) {
	eachState(t, func(t *testing.T, w *world) {
		key, own, mallory := identity(t), identity(t), w.client(w.executorToken("*"))
		away := func() {
			t.Helper()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ; ; <-tick.C {
				s, err := rendezvous.Status(t.Context(), w.state)
				if err != nil {
					t.Fatal(err)
				}
				if !s.Environments[0].Attached {
					return
				}
			}
		}
		reg, s := w.prove(w.executorToken(lab), registry.Registrant{Identity: key, Instance: "a"})
		w.connect(identity(t))
		s.cut()
		_, err := mallory.Register(t.Context(), lab, own.Public())
		conflict(t, "at once", err, registry.CodeInUse)
		away()
		_, err = mallory.Register(t.Context(), lab, own.Public())
		conflict(t, "own key", err, registry.CodeInUse)
		_, err = mallory.Register(t.Context(), lab, key.Public())
		conflict(t, "its key", err, registry.CodeInUse)
		if s, err = w.attempt(reg.URL); err != nil {
			t.Fatalf("it comes back: %v", err)
		}
		w.connect(identity(t))
		_ = s.Close()
		away()
		if _, err := mallory.Register(t.Context(), lab, own.Public()); err != nil {
			t.Errorf("after it has ended: %v", err)
		}
	})
}

// The latest of two executors with the same keys wins, and the other is told so as it
// comes back. A process that has lost an answer, or begins, is not.
func TestReplacedByTheSameKeys(t *testing.T) {
	eachState(t, func(t *testing.T, w *world) {
		key, token := identity(t), w.executorToken(lab)
		register := func(instance, previous string) (*registry.RegisterResponse, error) {
			return w.client(token).RegisterProved(t.Context(), lab, registry.Registrant{Identity: key, Instance: instance, Previous: previous})
		}
		first, _ := w.prove(token, registry.Registrant{Identity: key, Instance: "a"})
		if _, err := register("a", first.ExecutorRegistrationID); err != nil {
			t.Errorf("the same process again: %v", err)
		}
		if _, err := register("a", "lost"); err != nil {
			t.Errorf("the same process after an answer that was lost: %v", err)
		}
		if _, err := register("b", ""); err != nil {
			t.Errorf("a process that begins: %v", err)
		}
		if _, err := register("a", first.ExecutorRegistrationID); err != nil {
			t.Errorf("while the other has not attached: %v", err)
		}
		second, s := w.prove(token, registry.Registrant{Identity: key, Instance: "b"})
		w.notLetIn("the URL of before", first.URL)
		_, err := register("a", first.ExecutorRegistrationID)
		conflict(t, "the one that was replaced", err, registry.CodeReplaced)
		_ = s.Close()
		if _, err := register("b", second.ExecutorRegistrationID); err != nil {
			t.Errorf("the latest: %v", err)
		}
		// Nobody is told so because of a key that was not proved.
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		c := w.client(token)
		plain, err := c.Register(t.Context(), lab, key.Public())
		for ; err != nil; plain, err = c.Register(t.Context(), lab, key.Public()) {
			conflict(t, "until it has gone", err, registry.CodeInUse)
			<-tick.C
		}
		if _, err := w.attempt(plain.URL); err != nil {
			t.Fatal(err)
		}
		if _, err := register("b", second.ExecutorRegistrationID); err != nil {
			t.Errorf("after one without a proof: %v", err)
		}
	})
}

// S-R10: keys of low order are refused wherever a peer gives one, with the reason.
func TestSR10LowOrderKeys(t *testing.T) {
	w := newWorld(t, nil)
	data, err := json.Marshal(identity(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	var key map[string]string
	if err := json.Unmarshal(data, &key); err != nil {
		t.Fatal(err)
	}
	key["x25519_public_key"] = base64.StdEncoding.EncodeToString(make([]byte, 32))
	for op, c := range map[string]struct{ member, token string }{
		registry.OpRegister: {"executor_public_key", w.executorToken(lab)},
		registry.OpConnect:  {"harness_public_key", w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: lab})},
		registry.OpValidate: {"harness_public_key", w.executorToken(lab)},
	} {
		body, err := json.Marshal(map[string]any{"security_profile": registry.SecurityProfile, c.member: key})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/cloud/environment/"+lab+"/"+op, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "low order") {
			t.Errorf("%s: %d %s, %v", op, resp.StatusCode, text, err)
		}
	}
}

// A process that is frozen while it is replaced takes the time that it takes.
const patience = time.Minute

// Of two executors with the same keys the one that was replaced ends and says why, and
// the other serves.
func TestTwoExecutorsWithTheSameKeys(t *testing.T) {
	w := newWorld(t, nil)
	key := identity(t)
	first := w.run(key)
	w.connect(identity(t))
	w.echo(key)
	select {
	case err := <-first:
		if err == nil || !strings.Contains(err.Error(), "another executor has the keys of this one") {
			t.Errorf("the first: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the first goes on")
	}
	conn, err := w.harness(frame.Reliable).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
