//go:build attack && linux

package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A commons is a relay that tenants share: the innocent ones have the environment lab,
// whose executor is wsd's.
type commons struct {
	*world
	url, state, audit, log string
	pid                    int // of the relay
}

// files is how many a relay of a commons may have open.
const files = 1024

// begin starts wsd by way of a shell, which bounds what it may have open, and returns the
// first line that it prints. The log is the file that it has.
func (w *world) begin(log string, args ...string) (line string, pid int) {
	w.Helper()
	cmd := w.command()
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files), program}, args...)
	stderr, err := os.Create(log)
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stderr.Close()
		if w.Failed() {
			if text, err := os.ReadFile(log); err == nil {
				w.Logf("log of wsd %s:\n%s", args[0], text[max(0, len(text)-4000):])
			}
		}
	})
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.Fatalf("wsd %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid
}

// commons starts a relay in a directory of that name, and the executor of lab.
func (w *world) commons(name string) *commons {
	w.Helper()
	dir := filepath.Join(w.dir, name)
	w.mkdir(dir)
	c := &commons{world: w, state: "sqlite:" + filepath.Join(dir, "relay.db"), audit: filepath.Join(dir, "audit.jsonl"), log: filepath.Join(dir, "relay.log")}
	c.url, c.pid = w.begin(c.log, "relay", "--listen", "http://127.0.0.1:0", "--state", c.state, "--audit-log", c.audit)
	token := filepath.Join(dir, "executor.token")
	w.write(token, c.token("executor", "lab"), 0o600)
	w.begin(filepath.Join(dir, "executor.log"), "serve", "--remote", c.url, "--environment-id", "lab", "--token-file", token,
		"--identity", filepath.Join(dir, "identity.json"))
	return c
}

func (c *commons) token(role, env string) string {
	c.Helper()
	out, err := c.command("relay", "token", "create", "--role", role, "--environment", env, "--state", c.state).Output()
	if err != nil {
		c.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (c *commons) registry(token string) *registry.Client {
	c.Helper()
	credential, err := registry.Bearer(token)
	if err != nil {
		c.Fatal(err)
	}
	r, err := registry.New(registry.Config{BaseURLs: []string{c.url}, Credential: credential})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(r.Close)
	return r
}

// A tenant is an innocent client with a session that it keeps.
type tenant struct {
	*commons
	identity *seal.Identity
	token    string
	known    string

	mu       sync.Mutex
	worst    time.Duration // that its session was silent
	asked    time.Time     // when it has last sent something
	commands int
	failed   []error
}

func (c *commons) tenant(token string) *tenant {
	c.Helper()
	identity, err := seal.NewIdentity()
	if err != nil {
		c.Fatal(err)
	}
	return &tenant{commons: c, identity: identity, token: token, known: filepath.Join(c.TempDir(), "known")}
}

func (x *tenant) dial(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, "relay://"+strings.TrimPrefix(x.url, "http://")+"/lab", &client.Options{
		BearerToken: x.token, Relay: client.RelayOptions{Identity: x.identity, KnownExecutors: x.known},
	})
}

// live uses the session and makes connections of its own for commands until ctx ends.
func (x *tenant) live(ctx context.Context) error {
	c, err := x.dial(x.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Start(x.Context(), client.Command{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			if err := x.command(); err != nil {
				x.mu.Lock()
				x.failed = append(x.failed, err)
				x.mu.Unlock()
			}
			x.mu.Lock()
			x.commands++
			x.mu.Unlock()
		}
	})
	defer all.Wait()
	echo := bufio.NewReader(p.Stdout)
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		x.mu.Lock()
		x.asked = began
		x.mu.Unlock()
		line := fmt.Sprintln("line", i)
		if _, err := io.WriteString(p.Stdin, line); err != nil {
			return err
		}
		if got, err := echo.ReadString('\n'); err != nil || got != line {
			return fmt.Errorf("%q came back as %q, %w", line, got, err)
		}
		x.mu.Lock()
		x.worst = max(x.worst, time.Since(began))
		x.mu.Unlock()
	}
	return nil
}

// command runs one over a connection of its own.
func (x *tenant) command() error {
	ctx, cancel := context.WithTimeout(x.Context(), 30*time.Second)
	defer cancel()
	c, err := x.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Run(ctx, client.Command{Argv: []string{"echo", "hello"}}, nil)
	if err == nil && string(r.Stdout) != "hello\n" {
		err = fmt.Errorf("printed %q", r.Stdout)
	}
	return err
}

// report returns the worst silence since the last report.
func (x *tenant) report() (worst time.Duration, commands int, failed error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	worst, commands, failed = x.worst, x.commands, errors.Join(x.failed...)
	if !x.asked.IsZero() {
		worst = max(worst, time.Since(x.asked))
	}
	x.worst, x.commands, x.failed = 0, 0, nil
	return worst, commands, failed
}

// A hostility is what the tenants that mean ill do until ctx ends. Whatever is refused
// them is tried again.
type hostility struct {
	*commons
	harness  string // a token for lab, a new one for each attack, as it may have to pause
	everyone string // the innocent's token, which is for all environments
}

// again calls attempt until ctx ends, at most so often.
func again(ctx context.Context, every time.Duration, attempt func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		attempt()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// enter opens a harness's socket; nil if it is not let in.
func (h *hostility) enter(ctx context.Context, env, token string) relay.Carrier {
	key, err := seal.NewIdentity()
	if err != nil {
		return nil
	}
	resp, err := h.registry(token).Connect(ctx, env, key.Public())
	if err != nil {
		return nil
	}
	c, err := relay.Dial(ctx, resp.URL, relay.DialConfig{})
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c
}

func put(ctx context.Context, c relay.Carrier, id string, f *relayv1.RelayMessageFrame) error {
	f.Version, f.StreamId = frame.Version, id
	m, err := frame.Append(nil, f)
	if err != nil {
		return err
	}
	return c.Write(ctx, m)
}

func garbage() *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: []byte("x")}}}
}

func reset() *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "no"}}}
}

// handshakes sends bad ones, taken back at once if so said, every so often.
func (h *hostility) handshakes(every time.Duration, takenBack bool) func(ctx context.Context) {
	return func(ctx context.Context) {
		var c relay.Carrier
		n := 0
		again(ctx, every, func() {
			if c == nil {
				if c = h.enter(ctx, "lab", h.harness); c == nil {
					return
				}
				go drain(ctx, c) // ends with the socket
			}
			n++
			id := fmt.Sprint("bad-", n)
			err := put(ctx, c, id, garbage())
			if err == nil && takenBack {
				err = put(ctx, c, id, reset())
			}
			if err != nil {
				c = nil
			}
		})
	}
}

func drain(ctx context.Context, c relay.Carrier) {
	for {
		if _, err := c.Read(ctx); err != nil {
			return
		}
	}
}

// unread has the executor reset streams over sockets that nothing is read from.
func (h *hostility) unread(ctx context.Context) {
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			again(ctx, 10*time.Millisecond, func() {
				c := h.enter(ctx, "lab", h.harness)
				if c == nil {
					return
				}
				for i := 0; ; i++ {
					id := fmt.Sprint(i%20, strings.Repeat("-", 1000))
					resume := &relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}}
					data := &relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{SegmentCount: 1, Payload: []byte("x")}}}
					if put(ctx, c, id, resume) != nil || put(ctx, c, id, data) != nil {
						return
					}
				}
			})
		})
	}
	all.Wait()
}

// urls asks for one-time URLs and does not use them.
func (h *hostility) urls(ctx context.Context) {
	key, err := seal.NewIdentity()
	if err != nil {
		return
	}
	r := h.registry(h.harness)
	again(ctx, time.Millisecond, func() {
		if resp, err := r.Connect(ctx, "lab", key.Public()); err == nil {
			h.get(ctx, "http"+strings.TrimPrefix(resp.URL, "ws"))
		}
	})
}

func (h *hostility) get(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
}

// names asks for environments that cannot be.
func (h *hostility) names(ctx context.Context) {
	again(ctx, time.Millisecond, func() { h.get(ctx, h.url+"/relay/"+strings.Repeat("%00", 5000)+"?v=1") })
}

// connections opens more of them than the relay may have, half of them after a request.
func (h *hostility) connections(ctx context.Context) {
	var all []net.Conn
	open := func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			return err
		}
		if all = append(all, c); len(all)%2 == 0 {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n")
		}
		if len(all) > 2*files { // those of before are closed by the relay
			_ = all[0].Close()
			all = all[1:]
		}
		return nil
	}
	again(ctx, time.Millisecond, func() { _ = open(ctx) })
	for len(all) < files/4 { // where a turn is too short for so many
		if err := open(h.Context()); err != nil {
			h.Error(err)
			break
		}
	}
	for _, c := range all {
		_ = c.Close()
	}
}

// executor is one of another environment, to which the innocent's token goes too. It
// answers handshakes with resets, or not at all.
func (h *hostility) executor(env string, answers bool) func(ctx context.Context) {
	return func(ctx context.Context) {
		key, err := seal.NewIdentity()
		if err != nil {
			return
		}
		token := h.token("executor", env)
		var all sync.WaitGroup
		all.Go(func() {
			again(ctx, 100*time.Millisecond, func() {
				reg, err := h.registry(token).Register(ctx, env, key.Public())
				if err != nil {
					return
				}
				c, err := relay.Dial(ctx, reg.URL, relay.DialConfig{})
				if err != nil {
					return
				}
				defer c.Close()
				for {
					m, err := c.Read(ctx)
					if err != nil {
						return
					}
					if f, err := frame.Decode(m); err == nil && f.GetHandshake() != nil && answers {
						_ = put(ctx, c, f.GetStreamId(), reset())
					}
				}
			})
		})
		for range 5 {
			all.Go(func() {
				var last relay.Carrier // the innocent's own clients give up, too
				again(ctx, 50*time.Millisecond, func() {
					if last != nil {
						_ = last.Close()
					}
					if last = h.enter(ctx, env, h.everyone); last != nil {
						_ = put(ctx, last, "s", garbage())
					}
				})
			})
		}
		all.Wait()
	}
}

// attach registers as the executor of env and opens its socket.
func (h *hostility) attach(ctx context.Context, env string) (relay.Carrier, error) {
	key, err := seal.NewIdentity()
	if err != nil {
		return nil, err
	}
	reg, err := h.registry(h.token("executor", env)).Register(ctx, env, key.Public())
	if err != nil {
		return nil, err
	}
	return relay.Dial(ctx, reg.URL, relay.DialConfig{})
}

// Sockets that read nothing, of one token, do not have the relay hold more memory than it
// says, of which one token has half, whatever the frames that wait for them are like.
func TestSR8RelayMemory(t *testing.T) {
	each(t, func(w *world) {
		c := w.commons("shared")
		h := &hostility{commons: c}
		ctx, stop := context.WithCancel(w.Context())
		defer stop()
		executor, err := h.attach(ctx, "lab9")
		if err != nil {
			w.Fatal(err)
		}
		defer executor.Close()
		const sockets = 40
		token := c.token("harness", "lab9")
		for i := range sockets {
			s := h.enter(ctx, "lab9", token)
			if s == nil {
				w.Fatal("a harness is not let in")
			}
			resume := &relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}}}
			if err := put(ctx, s, fmt.Sprint(i), resume); err != nil {
				w.Fatal(err)
			}
			if _, err := executor.Read(ctx); err != nil {
				w.Fatal(err)
			}
		}
		const size = 33 << 10 // of which each has the buffer of one twice as long
		sending, end := context.WithTimeout(ctx, 10*time.Second)
		defer end()
		for seq := range uint32(rendezvous.MaxQueuedBytes / size) {
			for i := range sockets {
				data := &relayv1.RelayData{Seq: seq, SegmentCount: 1, Payload: make([]byte, size)}
				if put(sending, executor, fmt.Sprint(i), &relayv1.RelayMessageFrame{Body: &relayv1.RelayMessageFrame_Data{Data: data}}) != nil {
					break
				}
			}
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
		if err != nil {
			w.Fatal(err)
		}
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		var kib int64
		if _, err := fmt.Sscan(peak, &kib); err != nil {
			w.Fatal(err)
		}
		w.Logf("the relay has had %d MiB", kib>>10)
		if kib<<10 > rendezvous.MaxQueued {
			w.Errorf("the relay has had %d MiB", kib>>10)
		}
	})
}

// A hostile harness and a hostile executor beside an innocent pair, each attack in turn,
// two minutes in the long form: the innocent's session is never silent for more than a
// second, and none of its commands fail. A pair on a relay of its own says how slow the
// machine is.
func TestItem8TenantsDoNotTouchEachOther(t *testing.T) {
	each(t, testTenants)
}

// turns is how many of an attack are made at most, until one disturbs nobody. A command that
// fails is repeated only where the machine is slow: the session alone is silent for so long.
const (
	turns = 5
	slow  = 250 * time.Millisecond
)

func testTenants(w *world) {
	shared, alone := w.commons("shared"), w.commons("alone")
	everyone := shared.token("harness", "*")
	innocent, control := shared.tenant(everyone), alone.tenant(alone.token("harness", "lab"))
	h := &hostility{commons: shared, everyone: everyone}
	turn := 700 * time.Millisecond
	if !testing.Short() {
		turn = 14 * time.Second
	}
	ctx, end := context.WithCancel(w.Context())
	var lives sync.WaitGroup
	for _, x := range []*tenant{innocent, control} {
		lives.Go(func() {
			if err := x.live(ctx); err != nil {
				w.Errorf("the session at %s: %v", x.url, err)
			}
		})
	}
	for _, a := range []struct {
		name   string
		attack func(ctx context.Context)
	}{
		{"SR2 handshakes", h.handshakes(3400*time.Millisecond, false)},
		{"SR2 many handshakes", h.handshakes(5*time.Millisecond, false)},
		{"SR2 handshakes taken back", h.handshakes(5*time.Millisecond, true)},
		{"SR3 an executor that refuses", h.executor("lab3", true)},
		{"SR3 an executor that is silent", h.executor("lab4", false)},
		{"SR4 URLs", h.urls},
		{"SR5 names", h.names},
		{"SR6 connections", h.connections},
		{"SR9 resets that are not read", h.unread},
	} {
		h.harness = shared.token("harness", "lab")
		innocent.report()
		control.report()
		for try := 1; ; try++ { // a turn in which the machine was slow says nothing
			attacking, stop := context.WithTimeout(ctx, turn)
			a.attack(attacking)
			stop()
			worst, commands, failed := innocent.report()
			slowest, _, _ := control.report()
			w.Logf("%-30s silent for %v (alone %v), %d commands", a.name, worst, slowest, commands)
			if failed != nil && (slowest < slow || try == turns) {
				w.Errorf("%s: a command fails: %v", a.name, failed)
				break
			}
			if failed == nil && worst <= time.Second {
				break
			}
			if try == turns {
				if slowest < worst/3 {
					w.Errorf("%s: the session is silent for %v", a.name, worst)
				}
				break
			}
		}
	}
	end()
	lives.Wait()
	if info, err := os.Stat(shared.audit); err != nil || !testing.Short() && info.Size() > 16<<20 {
		w.Errorf("the audit log: %v, %v", info, err)
	}
	log, err := os.ReadFile(shared.log)
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(string(log), "too many connections") {
		w.Error("the relay does not say that there are too many connections")
	}
	audit, err := os.ReadFile(shared.audit)
	if err != nil {
		w.Fatal(err)
	}
	if strings.Contains(string(audit), `\u0000`) {
		w.Error("names that are none are in the audit log")
	}
}
