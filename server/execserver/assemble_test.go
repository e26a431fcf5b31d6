package execserver_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

// serveVariable makes this test program a server, for tests that need one with a user,
// an environment or limits of its own. It prints its URL and ends with its stdin.
const serveVariable = "WSD_TEST_SERVE"

func TestMain(m *testing.M) {
	sandbox.Main(execserver.Roles()) // this program is the helper too
	if os.Getenv(serveVariable) != "" {
		os.Unsetenv(serveVariable) // children must not serve
		if err := serveMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		parallel := "8" // most of these tests wait for children and servers most of the time
		if os.Getenv(targetVariable) != "" {
			parallel = "1" // the busier the original, the less it keeps its order
		}
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	// The transcripts look for these two; see 03-2-default-excludes.
	os.Setenv("TRANSCRIPT_KEY", "k")
	os.Setenv("TRANSCRIPT_PLAIN", "p")
	os.Exit(m.Run())
}

func serveMain() error {
	box := sandbox.New(sandbox.Config{})
	srv, err := execserver.New(config(box))
	if err != nil {
		return err
	}
	endpoint, err := srv.Listen(server.EndpointConfig{Announce: os.Stdout})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with stdin
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin) // either way it has ended
	}()
	return errors.Join(srv.Run(ctx, endpoint), box.Close())
}

func config(box *sandbox.Enforcer) execserver.Config {
	return execserver.Config{
		Version: "test", Sandbox: box, Confines: true,
		ProcessRetention: time.Hour, // the clients look at their processes again in the end
	}
}

// newServer assembles a server in this process.
func newServer(t *testing.T, change ...func(*execserver.Config)) *server.Server {
	t.Helper()
	box := sandbox.New(sandbox.Config{})
	cfg := config(box)
	for _, f := range change {
		f(&cfg)
	}
	srv, err := execserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := box.Close(); err != nil {
			t.Errorf("close the sandbox: %v", err)
		}
	})
	return srv
}

// A serverProcess is a server in a process of its own.
type serverProcess struct {
	url string
	pid int
}

// serverOptions say what is special about a serverProcess.
type serverOptions struct {
	env    []string
	nobody bool     // run as a user without privileges
	wrap   []string // command that runs the command that follows
}

// startServer starts a server and stops it when the test ends.
func startServer(t *testing.T, opts serverOptions) *serverProcess {
	t.Helper()
	args := append(opts.wrap, executable(t))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), serveVariable+"=1"), opts.env...)
	cmd.Dir = "/"
	var log strings.Builder
	cmd.Stderr = &log
	if opts.nobody && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: false}}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended: %v\n%s", err, log.String())
		}
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	return &serverProcess{url: strings.TrimSpace(url), pid: cmd.Process.Pid}
}

// nobody is the user without privileges of Linux distributions.
const nobody = 65534

// executable is this program where other users can execute it too: go test keeps it in
// a directory of its own. A hard link costs nothing where it can be had.
func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(privateDir(t), "wsd-test")
	if os.Link(self, path) == nil {
		return path
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
