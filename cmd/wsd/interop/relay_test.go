//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay/frame"
)

// ran runs whereAmI by our harness and returns what it printed.
func ran(t *testing.T, c *client.Client, dir string) string {
	t.Helper()
	result, err := c.Run(t.Context(), client.Command{Argv: []string{"/bin/bash", "-c", whereAmI}, Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Code != 0 {
		t.Fatalf("exit status %+v: %s", result.ExitStatus, result.Stderr)
	}
	return string(result.Stdout)
}

// codexRan has the real harness run whereAmI and returns what it printed.
func codexRan(t *testing.T, l *relayLab) string {
	t.Helper()
	m := newModel(t, shell(whereAmI), say())
	return newHome(t, m, "danger-full-access").codexExec(t, l.workspace, l.codexEnv()...)
}

// The real executor, our relay, our harness.
func TestRelayRealExecutor(t *testing.T) {
	l := newRelayLab(t, false)
	l.execute(target.Codex, append([]string{"exec-server"}, l.remote()...)...)
	c := l.dial("") // no profile is announced, so it is codex's
	l.wantRan(ran(t, c, l.workspace), "codex", "exec-server")

	// A terminal, files and a long output.
	data := bytes.Repeat([]byte("0123456789abcdef"), 200<<10)
	name := filepath.Join(l.workspace, "data")
	if _, err := c.WriteFile(t.Context(), name, data, nil); err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadFile(t.Context(), name)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of a file came back as %d, %v", len(data), len(got), err)
	}
	result, err := c.Run(t.Context(), client.Command{Argv: []string{"cat", name}}, nil)
	if err != nil || !bytes.Equal(result.Stdout, data) {
		t.Errorf("%d bytes of output came as %d, %v", len(data), len(result.Stdout), err)
	}
}

// Our executor, our relay, the real harness.
func TestRelayRealHarness(t *testing.T) {
	l := newRelayLab(t, false)
	l.execute(target.Wsd, append([]string{"serve"}, l.remote()...)...)
	l.wantRan(codexRan(t, l), "FINAL:", "parent:", "wsd")
}

// Our relay between the real ones.
func TestRelayBetweenReal(t *testing.T) {
	l := newRelayLab(t, false)
	l.execute(target.Codex, append([]string{"exec-server"}, l.remote()...)...)
	l.wantRan(codexRan(t, l), "FINAL:", "parent:", "exec-server")
}

// The same over TLS with a private authority; the executor's token comes by a pipe.
func TestRelayTLS(t *testing.T) {
	for _, kind := range []target.Kind{target.Codex, target.Wsd} {
		t.Run(string(kind), func(t *testing.T) {
			l := newRelayLab(t, true)
			l.execute(kind, append(append([]string{"exec-server"}, l.remote()...), "--registration-bearer-stdin")...)
			l.wantRan(codexRan(t, l), "FINAL:", "parent:", string(kind))
			if err := os.Remove(filepath.Join(l.workspace, "made")); err != nil {
				t.Fatal(err)
			}
			l.wantRan(ran(t, l.dial(""), l.workspace), string(kind))
		})
	}
}

// Each one's forward in front of the other's server.
func TestRelayForward(t *testing.T) {
	for front, behind := range map[target.Kind]target.Kind{target.Codex: target.Wsd, target.Wsd: target.Codex} {
		t.Run(fmt.Sprintf("%s before %s", front, behind), func(t *testing.T) {
			l := newRelayLab(t, false)
			path := map[target.Kind]string{target.Codex: codexPath, target.Wsd: program}[behind]
			server, err := target.Start(context.Background(), target.Config{Kind: behind, Path: path, Dir: l.workspace, Home: tempDir(t), Log: l.log})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Stop() })
			l.execute(front, append(append([]string{"exec-server", "forward"}, l.remote()...), "--connect", server.URL)...)
			l.wantRan(codexRan(t, l), "FINAL:", "parent:", string(behind))
			if err := os.Remove(filepath.Join(l.workspace, "made")); err != nil {
				t.Fatal(err)
			}
			l.wantRan(ran(t, l.dial(""), l.workspace), string(behind))
		})
	}
}

// Whatever is lost on the way while a command runs, no output is: the harness's socket,
// the relay itself.
func TestRelayRecovery(t *testing.T) {
	lose := map[string]func(t *testing.T, l *relayLab){
		"socket": func(t *testing.T, l *relayLab) {
			if n := l.cutter.cut(); n == 0 {
				t.Error("nothing was cut")
			}
		},
		"relay": func(_ *testing.T, l *relayLab) {
			l.restart()
			l.attached()
		},
	}
	for _, kind := range []target.Kind{target.Codex, target.Wsd} {
		for what, lose := range lose {
			t.Run(fmt.Sprintf("%s loses the %s", kind, what), func(t *testing.T) {
				l := newRelayLab(t, false)
				l.execute(kind, append([]string{"exec-server"}, l.remote()...)...)
				s := &setup{workspace: l.workspace}
				// The first call returns while the command still runs.
				m := newModel(
					t,
					call("exec_command", map[string]any{"cmd": numbered, "yield_time_ms": 1000, "max_output_tokens": 100000}),
					func(outputs []toolOutput) item {
						lose(t, l)
						s.goOn(t)
						return typing("")(outputs)
					},
					say(),
				)
				newHome(t, m, "danger-full-access").codexExec(t, l.workspace, l.codexEnv()...)
				var all string
				for _, r := range m.results(t) {
					all += r.Text + "\n"
				}
				wantLines(t, all)
				want(t, all, "code 0")
				if t.Failed() {
					t.Logf("%.3000s", all)
				}
			})
		}
	}
}

// The same with our harness, both profiles, and a terminal's worth of output.
func TestRelayRecoveryOurs(t *testing.T) {
	for _, p := range []frame.Profile{frame.Codex, frame.Reliable} {
		t.Run(string(p), func(t *testing.T) {
			l := newRelayLab(t, false)
			l.execute(target.Wsd, append([]string{"serve"}, l.remote()...)...)
			c := l.dial(p)
			s := &setup{workspace: l.workspace}
			type outcome struct {
				result *client.Result
				err    error
			}
			done := make(chan outcome, 1)
			go func() { // ends with the test's context
				r, err := c.Run(t.Context(), client.Command{Argv: []string{"/bin/bash", "-c", "touch started\n" + numbered}, Dir: l.workspace}, nil)
				done <- outcome{r, err}
			}()
			s.await(t, "started")
			if n := l.cutter.cut(); n == 0 {
				t.Error("nothing was cut")
			}
			l.restart()
			l.attached()
			s.goOn(t)
			select {
			case o := <-done:
				if o.err != nil {
					t.Fatal(o.err)
				}
				wantLines(t, string(o.result.Stdout))
			case <-time.After(turnTimeout):
				t.Error("the command does not end")
			}
		})
	}
}
