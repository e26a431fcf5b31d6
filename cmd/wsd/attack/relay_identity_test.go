//go:build attack && linux

package attack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// environment is the one of the executors of a relaySite.
const environment = "lab"

// A program under attack that goes on until it is ended.
type running struct {
	w   *world
	cmd *exec.Cmd
	// first is the first line of its standard output.
	first string
	ended chan error

	mu  sync.Mutex
	log bytes.Buffer // its standard error
}

func (p *running) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

func (p *running) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start runs wsd and waits for its first line.
func (w *world) start(args ...string) *running {
	w.Helper()
	p := &running{w: w, cmd: w.command(args...), ended: make(chan error, 1)}
	p.cmd.Stderr = p
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.wait()
		if w.Failed() {
			w.Logf("log of wsd %s:\n%s", strings.Join(args, " "), p.stderr())
		}
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		p.ended <- p.cmd.Wait()
		w.Fatalf("wsd %s: %v\n%s", strings.Join(args, " "), err, p.stderr())
	}
	p.first = strings.TrimSpace(line)
	go func() { p.ended <- p.cmd.Wait() }() // ends with the program
	return p
}

// wait returns how the program has ended.
func (p *running) wait() error {
	err := <-p.ended
	p.ended <- err
	return err
}

// A relaySite is a `wsd relay` and what its operator can make.
type relaySite struct {
	*world
	relay *running
	url   string
}

// relaySite starts a relay with its state in SQLite.
func (w *world) relaySite() *relaySite {
	w.Helper()
	s := &relaySite{world: w, relay: w.start("relay", "--listen", "http://127.0.0.1:0")}
	s.url = s.relay.first
	return s
}

// token makes a token.
func (s *relaySite) token(role, env string) string {
	s.Helper()
	out, err := s.command("relay", "token", "create", "--role", role, "--environment", env).Output()
	if err != nil {
		s.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// executor starts an executor with the keys in the file identity.
func (s *relaySite) executor(token, identity string) *running {
	s.Helper()
	path := filepath.Join(s.home, "executor.token")
	s.write(path, token, 0o600)
	return s.start("serve", "--remote", s.url, "--environment-id", environment, "--token-file", path, "--identity", identity)
}

// client asks the registry.
func (s *relaySite) client(token string) *registry.Client {
	s.Helper()
	credential, err := registry.Bearer(token)
	if err != nil {
		s.Fatal(err)
	}
	c, err := registry.New(registry.Config{BaseURLs: []string{s.url}, Credential: credential})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// exec runs `wsd exec` over the relay.
func (s *relaySite) exec(token string, argv ...string) (string, error) {
	s.Helper()
	cmd := s.command(append([]string{"exec", "--connect", "relay://" + strings.TrimPrefix(s.url, "http://") + "/" + environment, "--"}, argv...)...)
	cmd.Env = append(cmd.Env, "WSD_TOKEN="+token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func newKeys(t testing.TB) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// S-R1, step by step: a copied public key does not take an environment from the executor
// that is attached, whatever the token.
func TestSR1CopiedKey(t *testing.T) {
	each(t, func(w *world) {
		s := w.relaySite()
		victim := s.executor(s.token("executor", environment), filepath.Join(w.home, "victim.json"))
		harnessToken := s.token("harness", environment)
		if out, err := s.exec(harnessToken, "echo", "before"); err != nil || !strings.Contains(out, "before") {
			w.Fatalf("%v: %s", err, out)
		}
		for _, env := range []string{environment, "*"} {
			mallory, own := s.client(s.token("executor", env)), newKeys(w)
			ctx := w.Context()
			if _, err := mallory.Register(ctx, environment, own.Public()); err == nil {
				w.Fatal("an own key is registered beside the executor")
			}
			way, err := s.client(harnessToken).Connect(ctx, environment, newKeys(w).Public())
			if err != nil {
				w.Fatal(err)
			}
			if reg, err := mallory.Register(ctx, environment, way.ExecutorPublicKey); err == nil {
				if carrier, err := relay.Dial(ctx, reg.URL, relay.DialConfig{}); err == nil {
					w.Error("a socket with the victim's key")
					_ = carrier.Close()
				}
			}
			reg, err := mallory.Register(ctx, environment, own.Public())
			if err == nil {
				w.Errorf("an own key is registered after the victim's")
				if carrier, err := relay.Dial(ctx, reg.URL, relay.DialConfig{}); err == nil {
					w.Error("the environment is taken")
					_ = carrier.Close()
				}
			} else if refused, ok := errors.AsType[*registry.StatusError](err); !ok || refused.Status != http.StatusConflict {
				w.Error(err)
			}
		}
		if out, err := s.exec(harnessToken, "echo", "after"); err != nil || !strings.Contains(out, "after") {
			w.Errorf("the victim: %v: %s", err, out)
		}
		select {
		case err := <-victim.ended:
			victim.ended <- err
			w.Errorf("the victim has ended: %v\n%s", err, victim.stderr())
		default:
		}
	})
}

// Two executors with the same keys: the latest goes on, the other ends with a status of
// its own and says why.
func TestTwoExecutorsWithTheSameKeys(t *testing.T) {
	each(t, func(w *world) {
		s := w.relaySite()
		token, identity := s.token("executor", environment), filepath.Join(w.home, "identity.json")
		first := s.executor(token, identity)
		second := s.executor(token, identity)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		select {
		case err := <-first.ended:
			first.ended <- err
			if code := first.cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(first.stderr(), "another executor has the keys of this one") {
				w.Errorf("exit status %d\n%s", code, first.stderr())
			}
		case <-ctx.Done():
			w.Fatal("the first executor goes on")
		}
		if out, err := s.exec(s.token("harness", environment), "echo", "served"); err != nil || !strings.Contains(out, "served") {
			w.Errorf("the second: %v: %s\n%s", err, out, second.stderr())
		}
	})
}
