//go:build !linux

package target

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

const terminate = syscall.SIGTERM

var errNoProc = errors.New("the costs of a server are read from /proc, which this system has not")

// CPU needs Linux.
func (s *Server) CPU() (self, children time.Duration, err error) { return 0, 0, errNoProc }

// RSS needs Linux.
func (s *Server) RSS() (int64, error) { return 0, errNoProc }

// Descriptors needs Linux.
func (s *Server) Descriptors() (int, error) { return 0, errNoProc }

// Threads needs Linux.
func (s *Server) Threads() (int, error) { return 0, errNoProc }

// Children needs Linux.
func (s *Server) Children() ([]int, error) { return nil, errNoProc }

// Usage needs Linux.
func (s *Server) Usage() (Usage, error) { return Usage{}, errNoProc }

// ResetPeak needs Linux.
func (s *Server) ResetPeak() error { return errNoProc }

// Measure needs Linux.
func Measure(*exec.Cmd) (Usage, error) { return Usage{}, errNoProc }

// Flush needs Linux.
func Flush(string) error { return errNoProc }

// Room needs Linux.
func Room(string) (int64, error) { return 0, errNoProc }
