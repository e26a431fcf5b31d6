package process

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/wsd-dev/wsd/protocol"
)

// Values of SignalParams.Target and ListParams.Scope.
const (
	targetGroup   = "group"
	targetProcess = "process"

	scopeSession = "session"
	scopeServer  = "server"
	scopeArchive = "archive" // with a durable Recorder only
)

// findIn is find in the session that is named, if one is.
func (s *Service) findIn(ctx context.Context, sessionID *string, id string) (*entry, error) {
	if sessionID != nil {
		if s = s.cfg.Directory.find(*sessionID); s == nil {
			return nil, nil
		}
	}
	return s.find(ctx, id)
}

// signal serves process/signal. A process that is unknown or has exited gets none,
// which is no error.
func (s *Service) signal(ctx context.Context, p *protocol.SignalParams) (protocol.Empty, error) {
	sig, err := parseSignal(p.Signal)
	if err != nil {
		return protocol.Empty{}, err
	}
	group := true
	if p.Target != nil {
		switch *p.Target {
		case targetGroup:
		case targetProcess:
			group = false
		default:
			return protocol.Empty{}, unknownVariant(*p.Target, targetGroup, targetProcess)
		}
	}
	e, err := s.findIn(ctx, p.SessionID, p.ProcessID)
	if e == nil || err != nil {
		return protocol.Empty{}, err
	}
	defer e.release()
	return protocol.Empty{}, e.signal(sig, group)
}

// terminate serves process/terminate.
func (s *Service) terminate(ctx context.Context, p *protocol.TerminateParams) (*protocol.TerminateResult, error) {
	e, err := s.findIn(ctx, p.SessionID, p.ProcessID)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return &protocol.TerminateResult{}, nil
	}
	defer e.release()
	return &protocol.TerminateResult{Running: e.terminate()}, nil
}

// resize serves process/resize.
func (s *Service) resize(ctx context.Context, p *protocol.ResizeParams) (protocol.Empty, error) {
	size, err := terminalSize(p.Rows, p.Cols)
	if err != nil {
		return protocol.Empty{}, err
	}
	e, err := s.findIn(ctx, p.SessionID, p.ProcessID)
	if err != nil {
		return protocol.Empty{}, err
	}
	if e == nil {
		return protocol.Empty{}, unknownProcess(p.ProcessID)
	}
	defer e.release()
	if !e.tty {
		return protocol.Empty{}, protocol.Errorf(protocol.CodeInvalidRequest, "process %s has no terminal", p.ProcessID)
	}
	err = e.child.Process.Resize(size)
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.EIO) {
		err = nil // nobody is left to see it
	}
	return protocol.Empty{}, err
}

// list serves process/list.
func (s *Service) list(ctx context.Context, p *protocol.ListParams) (*protocol.ListResult, error) {
	scope := scopeSession
	if p.Scope != nil {
		scope = *p.Scope
	}
	result := &protocol.ListResult{}
	switch scope {
	case scopeSession:
		result.Processes = s.infos()
	case scopeServer:
		result.Processes = s.cfg.Directory.all()
	case scopeArchive:
		if !s.cfg.Durable {
			return nil, unknownVariant(scope, scopeSession, scopeServer)
		}
		var err error
		if result.Processes, err = listRecorded(ctx, s.cfg.Recorder.Store()); err != nil {
			return nil, err
		}
	default:
		return nil, unknownVariant(scope, scopeSession, scopeServer)
	}
	sortByAge(result.Processes)
	return result, nil
}

func unknownVariant(got string, a, b string) error {
	return protocol.InvalidParams("unknown variant `%.64s`, expected `%s` or `%s`", got, a, b)
}
