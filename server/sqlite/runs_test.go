package sqlite

import (
	"testing"

	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/process/shell/shelltest"
)

func TestRunStore(t *testing.T) {
	shelltest.Run(t, func(t *testing.T) shell.Store { return openCopy(t).Runs() })
}
