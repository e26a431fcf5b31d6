package main

import (
	"bufio"
	"fmt"
	"io"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts, and the helpers that wsd starts of itself, run this test
// binary as wsd.
func TestMain(m *testing.M) {
	testscript.Main(cleaner{m}, map[string]func(){"wsd": main})
}

// cleaner removes what the tests share when they are over.
type cleaner struct{ testscript.TestingM }

func (c cleaner) Run() int {
	code := c.TestingM.Run()
	if builtBinary != "" {
		os.RemoveAll(filepath.Dir(builtBinary))
	}
	return code
}

// scriptPatience is when scripts that still run have hung.
const scriptPatience = 8 * time.Minute

// TestScripts runs testdata/*.txt. Besides the usual commands they have
//
//	server NAME [ARGS]    start 'wsd ARGS' (default: serve --listen ws://127.0.0.1:0),
//	                      wait for its URL and put that in $NAME, host and port in
//	                      $NAME_host; its standard input is the file NAME.in, if any
//	end NAME [SIGNAL]     end it (TERM), want exit status 0 and nothing more on stdout
//	waitlog NAME TEXT     wait until it has logged TEXT
//	waitfile PATH         wait until there is such a file
//	certificate           make cert.pem, its own authority for 127.0.0.1, and key.pem
//
// Each script has a runtime directory of its own, so that it sees its own servers only.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", WorkdirRoot: shortDir(t), RequireUniqueNames: true, Deadline: time.Now().Add(scriptPatience),
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			run := filepath.Join(env.WorkDir, ".run")
			if err := os.Mkdir(run, 0o700); err != nil {
				return err
			}
			env.Setenv("XDG_RUNTIME_DIR", run)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("SHELL", "/bin/sh")
			// Under the race detector every process, sandbox helpers too, sleeps a second as it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			env.Values[serversKey{}] = make(map[string]*scriptServer)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": startServer, "end": endServer, "waitlog": waitLog, "waitfile": scriptWaitFile, "certificate": scriptCertificate,
		},
	})
}

// shortDir makes a directory whose path leaves room for the name of a Unix socket,
// which may have 104 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wsd") //nolint:usetesting // t.TempDir's are long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

type serversKey struct{}

// scriptServer is a server that a script started.
type scriptServer struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
}

func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: server NAME [ARGS]")
	}
	name, args := args[0], args[1:]
	if len(args) == 0 {
		args = []string{"serve", "--listen", "ws://127.0.0.1:0"}
	}
	program := filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], "wsd")
	cmd := exec.Command(program, args...)
	cmd.Dir = ts.MkAbs(".")
	for _, v := range serverVariables {
		if value := ts.Getenv(v); value != "" {
			cmd.Env = append(cmd.Env, v+"="+value)
		}
	}
	if in, err := os.Open(ts.MkAbs(name + ".in")); err == nil {
		defer in.Close()
		cmd.Stdin = in
	}
	log, err := os.Create(ts.MkAbs(filepath.Join(ts.Getenv("WORK"), name+".log")))
	ts.Check(err)
	defer log.Close()
	cmd.Stderr = log
	pipe, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s := &scriptServer{cmd: cmd, stdout: bufio.NewReader(pipe)}
	ts.Value(serversKey{}).(map[string]*scriptServer)[name] = s
	ts.Defer(func() { s.kill() })
	url, err := s.stdout.ReadString('\n')
	if err != nil {
		ts.Fatalf("no URL from wsd %s: %v\n%s", strings.Join(args, " "), err, ts.ReadFile(log.Name()))
	}
	ts.Setenv(name, strings.TrimSpace(url))
	if u, err := neturl.Parse(strings.TrimSpace(url)); err == nil {
		ts.Setenv(name+"_host", u.Host)
	}
}

// serverVariables are those that a server has of its script.
var serverVariables = []string{
	"PATH", "HOME", "SHELL", "XDG_RUNTIME_DIR", "TMPDIR", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE",
	"WSD_TOKEN", "WSD_TOKEN_FILE", "WSD_API_KEY", "CODEX_API_KEY", "CODEX_HOME",
	"PORT", "MOUNT_POINT", "RPC_CLIENT_SECRET", "MOUNT_IGNORE", "EXEC_LOG_MAX_BYTES", "XDG_STATE_HOME",
}

// waitLog waits for what is in a server's log, or will be. A file tells nobody that it
// has grown, so that all there is to do is to look again.
func waitLog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitlog NAME TEXT")
	}
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(2 * time.Millisecond); !strings.Contains(ts.ReadFile(args[0]+".log"), args[1]); <-tick.C {
		if time.Now().After(deadline) {
			ts.Fatalf("%s has not logged %q:\n%s", args[0], args[1], ts.ReadFile(args[0]+".log"))
		}
	}
}

// scriptWaitFile waits for a file that somebody is going to make.
func scriptWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfile PATH")
	}
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("there is no %s", args[0])
		}
	}
}

func scriptCertificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: certificate")
	}
	_, err := makeCertificate(ts.MkAbs("cert.pem"), ts.MkAbs("key.pem"))
	ts.Check(err)
}

// kill ends the server if it still runs.
func (s *scriptServer) kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func endServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: end NAME [SIGNAL]")
	}
	s := ts.Value(serversKey{}).(map[string]*scriptServer)[args[0]]
	if s == nil {
		ts.Fatalf("there is no server %s", args[0])
	}
	sig := syscall.SIGTERM
	if len(args) == 2 {
		sig = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}[args[1]]
	}
	ts.Check(s.cmd.Process.Signal(sig))
	if err := s.end(sig); err != nil {
		ts.Fatalf("%s after signal %v: %v", args[0], sig, err)
	}
}

// end waits for the server's end and says what was wrong with it.
func (s *scriptServer) end(sig syscall.Signal) error {
	stuck := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer stuck.Stop()
	rest, _ := io.ReadAll(s.stdout)
	err := s.cmd.Wait()
	if sig == syscall.SIGKILL {
		return nil
	}
	if err == nil && len(rest) > 0 {
		return fmt.Errorf("more than the URL on stdout: %q", rest)
	}
	return err
}
