package shell_test

import (
	"testing"

	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/process/shell/shelltest"
)

func TestMemoryStore(t *testing.T) {
	shelltest.Run(t, func(*testing.T) shell.Store { return new(shelltest.Memory) })
}
