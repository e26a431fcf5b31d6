package process

import (
	"context"
	"os"
	"syscall"

	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/protocol"
)

// A Launcher confines what is to be started.
type Launcher interface {
	// Confine returns how to start cmd so that it is held to policy. Its error is a
	// *protocol.Error, or becomes one of kind sandboxUnavailable. With enforceManaged
	// the network is held to managed, which may be nil. A nil policy allows everything,
	// and only the Resources of cmd are limited.
	Confine(ctx context.Context, policy *protocol.Sandbox, managed *protocol.ManagedNetwork, enforceManaged bool, cmd Launch) (Confined, error)
}

// Launch is a program that has been found, and how to call it.
type Launch struct {
	Path string   // relative to Dir unless absolute
	Argv []string // with argv[0]
	Env  []string // the whole environment, as name=value
	Dir  string   // absolute
	// Limited is true for a program that is held to limits.
	Limited bool
	// Resources are limits that the process sets before it executes the program.
	Resources []limit.Resource
}

// Confined is how a confined program is started: through a helper, as a rule.
type Confined struct {
	Launch Launch
	// Files become descriptors 3 and up. They are closed once the child has been
	// started or could not be.
	Files []*os.File
	// Attr, if set, changes the attributes of the fork: the namespaces that the helper
	// is born into. It leaves session, terminal and signals as they are.
	Attr func(*syscall.SysProcAttr)
	// Started, if set, is called once when the helper runs. It waits until the helper
	// has executed the program, or returns why it could not, as exec would:
	// syscall.ENOENT and so on. When the helper dies, it returns. apart is the IPC
	// namespace of a Limited program that is only for it and its descendants, nil where
	// there is none; it is the caller's to close, also with an error.
	Started func() (apart *os.File, err error)
	// Ended, if set, is called once when the program has ended, before anybody is told.
	// It returns within a few milliseconds, once the files are as they were.
	Ended func()
	// Type is the sandboxType that process/start reports.
	Type string
}
