package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
)

func errorBody(code string) registry.ErrorBody {
	return registry.ErrorBody{Error: &registry.ErrorDetail{Code: code, Message: "a message"}}
}

// The first registration: what ends the executor, and what it asks again for.
func TestFirstRegistration(t *testing.T) {
	other := registration(0)
	other.EnvironmentID = "other"
	for _, test := range []struct {
		name   string
		status int // 0 for no connection
		body   any
		again  bool
	}{
		{"503 conflict", 503, errorBody(registry.CodeRegistrationConflict), true},
		{"502 authentication", 502, errorBody(registry.CodeAuthUnavailable), true},
		{"503 detail", 503, registry.ErrorBody{Detail: &registry.ErrorDetail{Code: registry.CodeRegistrationConflict}}, true},
		{"503 other code", 503, errorBody("overloaded"), false},
		{"502 other code", 502, errorBody(registry.CodeRegistrationConflict), false},
		{"500", 500, "", false},
		{"400", 400, "", false},
		{"401", 401, "", false},
		{"403", 403, "", false},
		{"404", 404, "", false},
		{"408", 408, "", false},
		{"409", 409, "", false},
		{"410", 410, "", false},
		{"422", 422, "", false},
		{"429", 429, "", false},
		{"refused", 0, nil, false},
		{"bad JSON", 200, "<html>", false},
		{"other environment", 200, other, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.register = func(n int) (int, any) {
					if n == 7 {
						return 200, registration(0)
					}
					return test.status, test.body
				}
				stop := w.run(w.config())
				if !test.again {
					if err := stop2(stop); err == nil {
						t.Error("Run goes on")
					}
					// Every base URL was tried where none answers, each once.
					want := 1
					if test.status == 0 {
						want = 2
					}
					if n := len(w.registered()); n != want {
						t.Errorf("asked %d times", n)
					}
					return
				}
				w.peer()
				at := w.registered()
				for i, base := range []float64{0.5, 1, 2, 4, 5, 5, 5} {
					if d := (at[i+1].at - at[i].at).Seconds(); d < base || d > 1.5*base {
						t.Errorf("wait %d: %.2f s, want %.1f and up to half more", i, d, base)
					}
				}
			})
		})
	}
}

// stop2 lets Run end by itself if it is going to.
func stop2(stop func() error) error {
	synctest.Wait()
	return stop()
}

// refused is an upgrade that was answered with status.
func refused(status int, reason string) error {
	return fmt.Errorf("connect: %w", &relay.RefusedError{Status: status, Reason: reason})
}

// An upgrade refused with any 4xx: at once a new registration and a connection with its
// URL and registration id. If that is refused too, a wait comes before the next registration.
func TestUpgradeRefused4xx(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 410, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.register = func(n int) (int, any) { return 200, registration(n) }
				w.refuse = func(n int, _ string) error {
					if n < 4 {
						return refused(status, "expired")
					}
					return nil
				}
				w.run(w.config())
				p := w.peer()
				p.roundTrip(p.open("s", frame.Codex), "hello") // with the registration id of the fifth
				dials, registers := w.dialled(), w.registered()
				if len(dials) != 5 || len(registers) != 5 {
					t.Fatalf("%d attempts, %d registrations", len(dials), len(registers))
				}
				for i := range 4 {
					if registers[i+1].at != dials[i+1].at {
						t.Errorf("registration %d is at %v, the attempt with it at %v", i+1, registers[i+1].at, dials[i+1].at)
					}
					least, most := time.Duration(0), time.Duration(0)
					if i > 0 {
						least, most = 500*time.Millisecond<<(i-1), time.Second<<(i-1)
					}
					if wait := registers[i+1].at - dials[i].at; wait < least || wait > most {
						t.Errorf("wait %d: %v", i, wait)
					}
					if want := registration(i + 1).URL; dials[i+1].url != want {
						t.Errorf("attempt %d at %s, want %s", i+1, dials[i+1].url, want)
					}
				}
			})
		})
	}
}

// 5xx, refused, timed out: the same URL again after a wait. After two failures in a row
// a new registration, from the next node, and a connection with it at once.
func TestUpgradeFails(t *testing.T) {
	for name, failure := range map[string]error{
		"500": refused(500, ""), "503": refused(503, ""), "refused": io.ErrUnexpectedEOF, "timeout": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.register = func(n int) (int, any) { return 200, registration(n) }
				w.refuse = func(_ int, url string) error {
					if url == registration(0).URL {
						return failure
					}
					return nil
				}
				w.run(w.config())
				p := w.peer()
				p.roundTrip(p.open("s", frame.Codex), "hello")
				dials, registers := w.dialled(), w.registered()
				urls := []string{dials[0].url, dials[1].url, dials[2].url}
				if want := []string{registration(0).URL, registration(0).URL, registration(1).URL}; !slices.Equal(urls, want) {
					t.Errorf("attempts at %v", urls)
				}
				if len(registers) != 2 || registers[1].at != dials[1].at || dials[2].at != dials[1].at || registers[0].url == registers[1].url {
					t.Errorf("registered %v, tried %v", registers, dials)
				}
			})
		})
	}
}

// A node that says that it is not the one is left at the first word.
func TestDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(n int, _ string) error {
			if n == 0 {
				return refused(503, "pod_draining")
			}
			return nil
		}
		w.run(w.config())
		w.peer()
		if n := len(w.registered()); n != 2 {
			t.Errorf("registered %d times", n)
		}
	})
}

// The dialler has 10 s.
func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := w.config()
		cfg.Dial = func(ctx context.Context, url string) (relay.Carrier, error) {
			if len(w.dialled()) > 0 {
				return w.dial(ctx, url)
			}
			w.set(func() { w.dials = append(w.dials, event{}) })
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w.run(cfg)
		w.peer()
		if at := w.dialled()[1].at; at < 10500*time.Millisecond || at > 11*time.Second {
			t.Errorf("next attempt at %v", at)
		}
	})
}

// Once it was registered, an executor does not end because the registry is away, and
// uses the URL it has; it ends when the registry refuses it.
func TestRenewal(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   any
		ends   bool
	}{
		{"refused", 0, nil, false},
		{"500", 500, "", false},
		{"503", 503, "", false},
		{"503 conflict", 503, errorBody(registry.CodeRegistrationConflict), false},
		{"429", 429, "", false},
		{"401", 401, "", true},
		{"403", 403, "", true},
		{"404", 404, "", true},
		{"409 in use", 409, errorBody(registry.CodeInUse), false},
		{"409", 409, errorBody("another_executor"), false},
		{"409 replaced", 409, errorBody(registry.CodeReplaced), true},
		{"nonsense", 200, "{}", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.register = func(n int) (int, any) {
					if n == 0 || n > 12 {
						return 200, registration(0)
					}
					return test.status, test.body
				}
				stop := w.run(w.config())
				p := w.peer()
				s := p.open("s", frame.Reliable)
				w.set(func() {
					w.refuse = func(int, string) error {
						if len(w.registers) < 13 { // set holds the lock only while it sets
							return refused(401, "expired")
						}
						return nil
					}
				})
				p.carrier.Cut()
				if test.ends {
					pass(time.Minute)
					err := stop()
					if _, status := errors.AsType[*registry.StatusError](err); err == nil || (test.status != 200) != status {
						t.Errorf("Run: %v", err)
					}
					return
				}
				next := w.peer()
				p.move("s", s, next)
				next.roundTrip(s, "still here")
			})
		})
	}
}

// A watchedLogin calls before with the number of each registration, before its credential
// is read.
type watchedLogin struct {
	registry.Credential
	before    func(registration int)
	registers int
}

func (l *watchedLogin) Authorize(req *http.Request) error {
	if path.Base(req.URL.Path) == registry.OpRegister {
		l.before(l.registers)
		l.registers++
	}
	return l.Credential.Authorize(req)
}

// codex writes its login anew just as the registration is renewed: the executor asks again.
func TestRenewalWithHalfALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write := func(text string) {
			if err := os.WriteFile(registry.CodexLoginFile(dir), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		write(`{"OPENAI_API_KEY":"key"}`)
		login, err := registry.CodexLogin(dir)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t)
		cred := &watchedLogin{Credential: login, before: func(registration int) {
			switch registration {
			case 1:
				write("")
			case 2:
				write(`{"OPENAI_API_KEY":"another"}`)
			}
		}}
		cfg := w.config()
		cfg.Registry, err = registry.New(registry.Config{BaseURLs: []string{"http://localhost:1"}, Credential: cred, Transport: w})
		if err != nil {
			t.Fatal(err)
		}
		stop := w.run(cfg)
		p := w.peer()
		s := p.open("s", frame.Reliable)
		w.set(func() {
			w.refuse = func(int, string) error {
				if len(w.registers) < 2 { // set holds the lock only while it sets
					return refused(401, "expired")
				}
				return nil
			}
		})
		p.carrier.Cut()
		next := w.peer()
		p.move("s", s, next)
		next.roundTrip(s, "still here")
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A lost connection is made again after a wait that grows and that only a long
// connection clears; the URL stays.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(w.config())
		lasting := []time.Duration{0, time.Second, 65 * time.Second, 119 * time.Second, 0, 0, 0, 121 * time.Second, 0, 0}
		bases := []float64{1, 2, 4, 8, 16, 30, 30, 1, 2, 4}
		p := w.peer()
		for i, d := range lasting {
			pass(d)
			p.open(fmt.Sprint(i), frame.Codex) // a handshake clears nothing
			cut := time.Now()
			p.carrier.Cut()
			p = w.peer()
			if waited := time.Since(cut).Seconds(); waited < bases[i]/2-0.1 || waited > bases[i]+0.1 {
				t.Errorf("after connection %d: waited %.2f s, want %.1f to %.0f", i, waited, bases[i]/2, bases[i])
			}
		}
		for i, e := range w.dialled() {
			if e.url != registration(0).URL {
				t.Errorf("attempt %d at %s", i, e.url)
			}
		}
		if n := len(w.registered()); n != 1 {
			t.Errorf("registered %d times", n)
		}
	})
}

// What Run does not begin with.
func TestConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for name, change := range map[string]func(*Config){
			"no registry": func(c *Config) { c.Registry = nil },
			"no identity": func(c *Config) { c.Identity = nil },
			"no serve":    func(c *Config) { c.Serve = nil },
			"no id":       func(c *Config) { c.EnvironmentID = "" },
			"bad id":      func(c *Config) { c.EnvironmentID = "a/b" },
		} {
			cfg := w.config()
			change(&cfg)
			if err := Run(t.Context(), cfg); err == nil {
				t.Errorf("%s: taken", name)
			}
		}
		if len(w.registered()) != 0 {
			t.Error("the registry was asked")
		}
	})
}

// Run that is to end at once, and while it waits.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Run(ctx, w.config()); err != nil {
			t.Errorf("ended before: %v", err)
		}
		w.register = func(int) (int, any) { return 503, errorBody(registry.CodeRegistrationConflict) }
		stop := w.run(w.config())
		pass(time.Hour)
		if err := stop(); err != nil {
			t.Errorf("while registering: %v", err)
		}
		w.register = func(int) (int, any) { return 200, registration(0) }
		w.refuse = func(int, string) error { return io.EOF }
		stop = w.run(w.config())
		pass(time.Hour)
		if err := stop(); err != nil {
			t.Errorf("while connecting: %v", err)
		}
	})
}
