package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/trust"
)

func TestRelay(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile frame.Profile) {
		_, c := dialRelay(t, profile)
		if c.Kind() != "relay" {
			t.Errorf("kind %s", c.Kind())
		}
		input := randomBytes(1, 3<<20)
		result, err := c.Run(t.Context(), client.Command{Argv: []string{"cat"}}, bytes.NewReader(input))
		if err != nil || !bytes.Equal(result.Stdout, input) || result.Code != 0 {
			t.Fatalf("%d bytes, %v", len(result.Stdout), err)
		}
		p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "echo out; echo err >&2; read x; exit $x"}, Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Stdin.Write([]byte("7\n")); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(p.Stdout)
		if err != nil || string(out) != "out\n" {
			t.Errorf("stdout %q, %v", out, err)
		}
		if status, err := p.Wait(t.Context()); err != nil || status.Code != 7 {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

// Either socket is cut while a process prints. Nothing is lost, doubled or reordered,
// in the codex profile by resuming the session, in the reliable one unnoticed.
func TestRelayCuts(t *testing.T) {
	t.Parallel() // it waits for executors that come back
	eachProfile(t, func(t *testing.T, profile frame.Profile) {
		r := newTinyRelay(t, profile)
		r.execute(t, newIdentity(t))
		opts := relayOptions(t)
		var connected atomic.Int64
		opts.OnState = func(change client.StateChange) {
			if change.State == client.StateConnected {
				connected.Add(1)
			}
		}
		opts.Reconnect.MinDelay = 10 * time.Millisecond
		c, err := client.DialRelay(t.Context(), r.url(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// Each line that is asked for is printed, and each is numbered.
		p, err := c.Start(t.Context(), client.Command{
			Argv: []string{"sh", "-c", `i=0; while read n; do e=$((i+n)); while [ $i -lt $e ]; do i=$((i+1)); echo "line $i"; done; done`}, Stdin: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		next, want := 0, 0
		lines := newLineReader(p.Stdout)
		for cut := range 6 {
			if _, err := p.Stdin.Write([]byte("2000\n")); err != nil {
				t.Fatalf("cut %d: %v", cut, err)
			}
			want += 2000
			for next < want {
				next++
				got, err := lines.next()
				if err != nil || got != fmt.Sprintf("line %d", next) {
					t.Fatalf("line %d is %q, %v", next, got, err)
				}
				if next == want-1500 { // in the middle
					if cut%3 == 2 {
						r.cutExecutor(t)
					} else {
						r.cutHarness(t)
					}
				}
			}
		}
		if err := p.CloseStdin(); err != nil {
			t.Error(err)
		}
		if status, err := p.Wait(t.Context()); err != nil || status.Code != 0 {
			t.Errorf("%+v, %v", status, err)
		}
		n := connected.Load()
		if profile == frame.Reliable && n != 1 || profile == frame.Codex && n < 3 {
			t.Errorf("connected %d times", n)
		}
	})
}

// lineReader reads lines of a stream.
type lineReader struct {
	r    io.Reader
	rest []byte
	buf  []byte
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: r, buf: make([]byte, 32<<10)} }

func (l *lineReader) next() (string, error) {
	for {
		if line, after, ok := bytes.Cut(l.rest, []byte("\n")); ok {
			l.rest = after
			return string(line), nil
		}
		n, err := l.r.Read(l.buf)
		l.rest = append(l.rest, l.buf[:n]...)
		if err != nil && n == 0 {
			return string(l.rest), err
		}
	}
}

// A file is copied there and back while sockets are cut: its handle lives in the
// stream, and the stream lives on.
func TestRelayCopyAcrossCuts(t *testing.T) {
	t.Parallel() // it waits for executors that come back
	r, c := dialRelay(t, frame.Reliable)
	data := randomBytes(8, 8<<20)
	name := filepath.Join(t.TempDir(), "file")
	w, err := c.Create(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	cuts := 0
	for i := 0; i < len(data); i += 1 << 20 {
		if _, err := w.Write(data[i : i+1<<20]); err != nil {
			t.Fatalf("at %d: %v", i, err)
		}
		switch i >> 20 {
		case 1, 5:
			r.cutHarness(t)
			cuts++
		case 3:
			r.cutExecutor(t)
			cuts++
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if local, err := os.ReadFile(name); err != nil || !bytes.Equal(local, data) {
		t.Errorf("written %d bytes, or others, %v", len(local), err)
	}

	f, err := c.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got bytes.Buffer
	for got.Len() < len(data) {
		if _, err := io.CopyN(&got, f, 1<<20); err != nil {
			t.Fatalf("at %d: %v", got.Len(), err)
		}
		switch got.Len() >> 20 {
		case 2, 4, 6:
			r.cutHarness(t)
			cuts++
		}
	}
	if !bytes.Equal(got.Bytes(), data) {
		t.Error("read others")
	}
	if cuts != 6 {
		t.Errorf("%d cuts", cuts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.auths) == 0 {
		t.Error("every socket had a handshake")
	}
}

// When the stream cannot go on, the session still does.
func TestRelayFallsBackToSession(t *testing.T) {
	t.Parallel() // it waits for executors that come back
	r := newTinyRelay(t, frame.Reliable)
	r.execute(t, newIdentity(t))
	opts := relayOptions(t)
	opts.Relay.StreamLife = 200 * time.Millisecond // shorter than the cut below
	c, err := client.DialRelay(t.Context(), r.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session := c.SessionID()
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one\n", "two\n"} {
		r.cutAll() // the executor takes half a second at least to come back
		if _, err := p.Stdin.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout)
	if err != nil || string(out) != "one\ntwo\n" || c.SessionID() != session {
		t.Errorf("%q, %v, session %s of %s", out, err, c.SessionID(), session)
	}
}

// A key is pinned on first use; another is refused, for good, and the file says which
// line to delete.
func TestRelayPinsOnFirstUse(t *testing.T) {
	r := newTinyRelay(t, frame.Reliable)
	id := newIdentity(t)
	stop := r.execute(t, id)
	opts := relayOptions(t)
	var asked []string
	opts.Relay.Unknown = func(name string, print seal.Fingerprint) error {
		asked = append(asked, name+" "+print.String())
		return nil
	}
	for range 2 {
		c, err := client.Dial(t.Context(), r.url(), opts)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	want := r.name() + " " + id.Public().Fingerprint().String()
	if len(asked) != 1 || asked[0] != want {
		t.Errorf("asked %q, want %q once", asked, want)
	}
	if text, err := os.ReadFile(opts.Relay.KnownExecutors); err != nil || string(text) != want+" reliable-1\n" {
		t.Errorf("file is %q, %v", text, err)
	}

	stop()
	r.execute(t, newIdentity(t))
	_, err := client.Dial(t.Context(), r.url(), opts)
	changed, ok := errors.AsType[*trust.KeyChangedError](err)
	if !ok || changed.Line != 1 || changed.Before != id.Public().Fingerprint() || !strings.Contains(err.Error(), "delete line 1 of "+opts.Relay.KnownExecutors) {
		t.Errorf("got %v", err)
	}
}

func TestRelayTrust(t *testing.T) {
	r := newTinyRelay(t, frame.Reliable)
	id := newIdentity(t)
	r.execute(t, id)
	good, bad := id.Public().Fingerprint().String(), newIdentity(t).Public().Fingerprint().String()
	no := errors.New("no")
	for _, tt := range []struct {
		name string
		url  string
		set  func(o *client.RelayOptions)
		want string // in the error
	}{
		{"URL", r.url() + "#" + good, nil, ""},
		{"other in URL", r.url() + "#" + bad, nil, "has changed"},
		{"pin", r.url(), func(o *client.RelayOptions) { o.Pin = good }, ""},
		{"other pin", r.url(), func(o *client.RelayOptions) { o.Pin = bad }, "has changed"},
		{"both", r.url() + "#" + good, func(o *client.RelayOptions) { o.Pin = good }, ""},
		{"both, and they differ", r.url() + "#" + good, func(o *client.RelayOptions) { o.Pin = bad }, "the URL says"},
		{"no pin", r.url(), func(o *client.RelayOptions) { o.Pin = "SHA256:x" }, "wsd fingerprint"},
		{"unknown is refused", r.url(), func(o *client.RelayOptions) {
			o.Unknown = func(string, seal.Fingerprint) error { return no }
		}, "no"},
		{"verify", r.url() + "#" + bad, func(o *client.RelayOptions) {
			o.Verify = func(key *seal.PublicKey) error {
				if !key.Equal(id.Public()) {
					return errors.New("another key")
				}
				return nil
			}
		}, ""},
		{"verify refuses", r.url() + "#" + good, func(o *client.RelayOptions) {
			o.Verify = func(*seal.PublicKey) error { return no }
		}, "no"},
		{"file that cannot be", r.url(), func(o *client.RelayOptions) { o.KnownExecutors = "/dev/null/x" }, "/dev/null/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := relayOptions(t)
			if tt.set != nil {
				tt.set(&opts.Relay)
			}
			c, err := client.Dial(t.Context(), tt.url, opts)
			if err == nil {
				defer c.Close()
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			want := "" // a pinned key is known after, for the profile; others are not
			if tt.want == "" && opts.Relay.Verify == nil {
				want = r.name() + " " + good + " reliable-1\n"
			}
			if text, _ := os.ReadFile(opts.Relay.KnownExecutors); string(text) != want {
				t.Errorf("the file is %q, want %q", text, want)
			}
		})
	}
}

// Without a pin and without a file, the person's own file counts.
func TestRelayDefaultFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	path, err := trust.DefaultKnown()
	if err != nil || !strings.HasPrefix(path, home) {
		t.Fatalf("%s, %v", path, err)
	}
	r := newTinyRelay(t, frame.Reliable)
	r.execute(t, newIdentity(t))
	c, err := client.Dial(t.Context(), r.url(), &client.Options{BearerToken: relayToken})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), r.name()+" SHA256:") {
		t.Errorf("file is %q, %v", text, err)
	}
}

// What is for good is not tried again.
func TestRelayEndsForGood(t *testing.T) {
	t.Parallel() // it waits for executors that come back
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, r *tinyRelay, stop func())
		want  func(error) bool
	}{
		{"token revoked", func(t *testing.T, r *tinyRelay, _ func()) {
			r.mu.Lock()
			r.token = "another"
			r.mu.Unlock()
			r.cutHarness(t)
		}, func(err error) bool {
			e, ok := errors.AsType[*registry.StatusError](err)
			return ok && e.Status == 401
		}},
		{"another executor", func(t *testing.T, r *tinyRelay, stop func()) {
			stop()
			r.execute(t, newIdentity(t))
		}, func(err error) bool {
			_, ok := errors.AsType[*harness.KeyChangedError](err)
			return ok
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachProfile(t, func(t *testing.T, profile frame.Profile) {
				r := newTinyRelay(t, profile)
				stop := r.execute(t, newIdentity(t))
				opts := relayOptions(t)
				closed := make(chan error, 1)
				opts.OnState = func(change client.StateChange) {
					if change.State == client.StateClosed {
						closed <- change.Err
					}
				}
				c, err := client.DialRelay(t.Context(), r.url(), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				p, err := c.Start(t.Context(), client.Command{Argv: []string{"sleep", "300"}})
				if err != nil {
					t.Fatal(err)
				}
				tt.spoil(t, r, stop)
				select {
				case err := <-closed:
					if !tt.want(err) {
						t.Errorf("got %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it goes on trying")
				}
				if _, err := p.Wait(t.Context()); !errors.Is(err, client.ErrTransportClosed) {
					t.Errorf("process: %v", err)
				}
			})
		})
	}
}

func TestRelayFirstConnectionFails(t *testing.T) {
	r := newTinyRelay(t, frame.Reliable)
	r.execute(t, newIdentity(t))
	opts := relayOptions(t)
	opts.BearerToken = "wrong"
	_, err := client.Dial(t.Context(), r.url(), opts)
	if refused, ok := errors.AsType[*registry.StatusError](err); !ok || refused.Status != 401 || r.connects != 1 {
		t.Errorf("got %v after %d attempts", err, r.connects)
	}

	// A bound that was asked for holds, and the reason is in the error.
	empty := newTinyRelay(t)
	opts = relayOptions(t)
	opts.ConnectTimeout = 2 * time.Second
	for answered := false; !answered; opts.ConnectTimeout *= 2 { // longer where it takes the relay longer to answer
		began := time.Now()
		_, err = client.Dial(t.Context(), empty.url(), opts)
		refused, ok := errors.AsType[*registry.StatusError](err)
		answered = ok && refused.Code == registry.CodeOffline
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 15*opts.ConnectTimeout || !answered && took > time.Minute {
			t.Fatalf("got %v after %v", err, took)
		}
	}
}

func TestRelayHooks(t *testing.T) {
	r := newTinyRelay(t, frame.Reliable)
	r.execute(t, newIdentity(t))
	opts := relayOptions(t)
	var steps, frames atomic.Int64
	opts.Relay.OnStep = func(harness.StepReport) { steps.Add(1) }
	opts.Relay.Trace = func(relay.TraceEvent) { frames.Add(1) }
	opts.Relay.Profile = frame.Codex
	opts.Relay.Identity = newIdentity(t)
	c, err := client.DialRelay(t.Context(), r.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if steps.Load() != 4 || frames.Load() < 5 {
		t.Errorf("%d steps, %d frames", steps.Load(), frames.Load())
	}
}
