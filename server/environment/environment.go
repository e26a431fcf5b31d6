package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Family names as errors about the handshake give them.
const (
	familyInfo   = "environment info"
	familyStatus = "environment status"
)

// Values of EnvironmentStatusResult.Status.
const (
	StatusReady    = "ready"
	StatusDraining = "draining"
)

// Config is what a Service is told; the zero value describes this process.
type Config struct {
	// Version is the executorVersion; "devel" when empty.
	Version string
	// Cwd is the directory that the server serves; the process's own when empty.
	Cwd string
	// WorkspaceMount is where clients see the workspace; "" when none is served.
	WorkspaceMount string
	// WorkspacePlace is where the workspace is; nil when none is served.
	WorkspacePlace *protocol.WorkspacePlace
	// Capabilities are those announced, as Capabilities returns them.
	Capabilities map[string]bool
	// SessionGrace and ProcessRetention are announced among the limits; those of
	// package protocol when nil.
	SessionGrace     *time.Duration
	ProcessRetention *time.Duration
	// Draining, if set, reports whether the server is about to end.
	Draining func() bool
}

// Service serves environment/info and environment/status.
type Service struct {
	info     protocol.EnvironmentInfo
	draining func() bool
}

// New looks at the machine. It fails when the working directory is not known.
func New(cfg Config) (*Service, error) {
	cwd := cfg.Cwd
	if cwd == "" {
		var err error
		if cwd, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("find the working directory: %w", err)
		}
	}
	cwd, err := filepath.Abs(cwd)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	user := lookupUser()
	s := &Service{draining: cfg.Draining, info: protocol.EnvironmentInfo{
		Shell:                user.loginShell(),
		ExecutorVersion:      cfg.Version,
		Cwd:                  fileuri.Format(cwd),
		UserHomeDir:          fileuri.Format(user.homeDir()),
		PlatformOS:           platformOS(),
		PrependPathDirs:      []string{},
		TemporaryDirectories: []string{},
		TempDir:              fileuri.Format(os.TempDir()),
		WorkspaceMount:       cfg.WorkspaceMount,
		WorkspacePlace:       cfg.WorkspacePlace,
		Capabilities:         cfg.Capabilities,
		Limits: &protocol.Limits{
			MaxMessageBytes:    protocol.MaxMessageBytes,
			MaxReadFileBytes:   protocol.MaxReadFileBytes,
			MaxBlockBytes:      protocol.MaxBlockBytes,
			MaxRetainedBytes:   protocol.MaxRetainedBytes,
			SessionGraceMs:     milliseconds(cfg.SessionGrace, protocol.SessionGrace),
			ProcessRetentionMs: milliseconds(cfg.ProcessRetention, protocol.ProcessRetention),
		},
	}}
	if s.info.ExecutorVersion == "" {
		s.info.ExecutorVersion = "devel"
	}
	// The original lists TMPDIR, whether or not it exists, and nothing else.
	if dir := os.Getenv("TMPDIR"); dir != "" {
		s.info.TemporaryDirectories = append(s.info.TemporaryDirectories, fileuri.Format(dir))
	}
	if s.info.Capabilities == nil {
		s.info.Capabilities = map[string]bool{}
	}
	return s, nil
}

func milliseconds(given *time.Duration, usual time.Duration) int {
	if given != nil {
		usual = *given
	}
	return int(usual.Milliseconds())
}

// platformOS is runtime.GOOS as the wire spells it.
func platformOS() string {
	if runtime.GOOS == "darwin" {
		return "macos"
	}
	return runtime.GOOS
}

// Close implements rpc.Service; there is nothing to end, and one Service serves all
// connections.
func (*Service) Close() error { return nil }

// Register adds the methods of a *Service to t.
func Register(t *rpc.Table) {
	inline := rpc.Always[protocol.Empty](rpc.Inline)
	rpc.Handle(t, rpc.Spec[protocol.Empty]{Name: protocol.MethodEnvironmentInfo, Family: familyInfo, Order: inline}, (*Service).serveInfo)
	rpc.Handle(t, rpc.Spec[protocol.Empty]{Name: protocol.MethodEnvironmentStatus, Family: familyStatus, Order: inline}, (*Service).serveStatus)
}

// Info describes the machine. What it points to is shared and must not be changed.
func (s *Service) Info() protocol.EnvironmentInfo { return s.info }

// Status is "ready", or "draining" once the server is about to end.
func (s *Service) Status() string {
	if s.draining != nil && s.draining() {
		return StatusDraining
	}
	return StatusReady
}

func (s *Service) serveInfo(context.Context, *protocol.Empty) (*protocol.EnvironmentInfo, error) {
	return &s.info, nil
}

func (s *Service) serveStatus(context.Context, *protocol.Empty) (*protocol.EnvironmentStatusResult, error) {
	return &protocol.EnvironmentStatusResult{Status: s.Status()}, nil
}
