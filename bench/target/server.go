package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Kind is a program that serves the exec-server wire.
type Kind string

// The kinds there are.
const (
	Wsd   Kind = "wsd"
	Codex Kind = "codex"
	// Relay is `wsd relay`; its URL is http://127.0.0.1:PORT.
	Relay Kind = "relay"
)

// startTimeout is how long a server may take to say where it listens.
const startTimeout = 20 * time.Second

// Config says what to start.
type Config struct {
	Kind Kind
	// Path is the program. For Codex it may be the launcher that npm installs; the
	// program behind it is started, so that costs are its own.
	Path string
	// Args follow those that make it listen.
	Args []string
	// Dir is its working directory and Home its home, where it keeps its files; Home
	// must exist.
	Dir, Home string
	// Env is added to a small environment without secrets.
	Env []string
	// Stdin is what Run lets it read at first; its stdin stays open after that.
	Stdin string
	// Log takes what it prints to stderr. nil discards.
	Log io.Writer
	// Attributes are those of its process, such as the user that it runs as, who then
	// owns Home. nil changes nothing.
	Attributes *syscall.SysProcAttr
}

// A Server is a running server.
type Server struct {
	URL     string // ws://127.0.0.1:PORT
	Addr    string // 127.0.0.1:PORT
	PID     int
	Started time.Duration // from the spawn until it said where it listens

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set then
	err  error
	once sync.Once
}

// Command is the argv that serves on listen, a URL such as ws://127.0.0.1:0 or stdio.
func (c *Config) Command(listen string) ([]string, error) {
	switch c.Kind {
	case Wsd:
		return append([]string{c.Path, "serve", "--listen", listen}, c.Args...), nil
	case Relay:
		return append([]string{c.Path, "relay", "--listen", strings.Replace(listen, "ws", "http", 1)}, c.Args...), nil
	case Codex:
		path, err := Native(c.Path)
		if err != nil {
			return nil, err
		}
		return append([]string{path, "exec-server", "--listen", listen}, c.Args...), nil
	default:
		return nil, fmt.Errorf("unknown kind of server %q", c.Kind)
	}
}

// Environ is the environment that the server is given.
func (c *Config) Environ() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + c.Home,
		"CODEX_HOME=" + filepath.Join(c.Home, ".codex"), "XDG_RUNTIME_DIR=" + c.Home,
		"XDG_STATE_HOME=" + filepath.Join(c.Home, "state"),
	}
	return append(env, c.Env...)
}

// Start runs the server on a free port of 127.0.0.1 and returns once it listens.
// It is stopped by Stop, or killed when ctx ends.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	argv, err := cfg.Command("ws://127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if cfg.Kind == Wsd {
		// It ends when its stdin does, so that none outlives a test that was killed.
		argv = append(argv, "--exit-on-stdin-close")
	}
	begin := time.Now()
	s, stdout, err := spawn(ctx, cfg, argv)
	if err != nil {
		return nil, err
	}
	line, read := make(chan string, 1), make(chan struct{})
	go func() { // ends with the pipe, which Wait closes if no child holds it open
		defer close(read)
		r := bufio.NewReader(stdout)
		first, _ := r.ReadString('\n')
		line <- strings.TrimSpace(first)
		_, _ = io.Copy(io.Discard, r)
	}()
	select {
	case s.URL = <-line:
		s.Started = time.Since(begin)
	case <-time.After(startTimeout):
		err = errors.New("does not say where it listens")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	go func() { // ends with the server; Stop waits for it
		defer close(s.done)
		s.err = s.cmd.Wait()
		<-read
	}()
	_, addr, ok := strings.Cut(s.URL, "://")
	if err == nil && !ok {
		err = fmt.Errorf("printed %q instead of its URL", s.URL)
	}
	if err != nil {
		_ = s.Stop()
		return nil, fmt.Errorf("%s: %w", cfg.Kind, err)
	}
	s.Addr = strings.TrimSuffix(addr, "/")
	return s, nil
}

// Run runs argv, which says for itself what it does, in cfg's place. It is stopped by
// Stop, or killed when ctx ends.
func Run(ctx context.Context, cfg Config, argv ...string) (*Server, error) {
	s, stdout, err := spawn(ctx, cfg, argv)
	if err != nil {
		return nil, err
	}
	go func() { // ends with the server; Stop waits for it
		defer close(s.done)
		_, _ = io.Copy(io.Discard, stdout)
		s.err = s.cmd.Wait()
	}()
	return s, nil
}

func spawn(ctx context.Context, cfg Config, argv []string) (*Server, io.Reader, error) {
	if err := os.MkdirAll(filepath.Join(cfg.Home, ".codex"), 0o700); err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = cfg.Dir, cfg.Environ(), cfg.Log
	cmd.SysProcAttr = cfg.Attributes
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	stdin, err := cmd.StdinPipe() // which Wait closes
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", cfg.Kind, err)
	}
	_, _ = io.WriteString(stdin, cfg.Stdin) // it fits the pipe; who does not read it does not need it
	return &Server{PID: cmd.Process.Pid, cmd: cmd, done: make(chan struct{})}, stdout, nil
}

// Done is closed when the server has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server with SIGTERM, with SIGKILL if that takes too long, and
// returns how it ended.
func (s *Server) Stop() error {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(terminate)
		select {
		case <-s.done:
		case <-time.After(5 * time.Second):
			_ = s.cmd.Process.Kill()
			<-s.done
			s.err = errors.Join(errors.New("did not end by SIGTERM within 5 s"), s.err)
		}
	})
	<-s.done
	return s.err
}

// Native finds the program that npm's launcher at path starts; path itself if it is
// no launcher.
func Native(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if filepath.Ext(real) != ".js" {
		return real, nil
	}
	scope := filepath.Dir(filepath.Dir(filepath.Dir(real))) // .../@openai/codex/bin/codex.js
	found, err := filepath.Glob(filepath.Join(scope, "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the codex program of %s: found %d", path, len(found))
	}
	return found[0], nil
}
