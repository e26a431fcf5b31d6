package sqlite

import (
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/logtest"
)

func TestLogStore(t *testing.T) {
	logtest.RunArchive(t, func(t *testing.T) process.ArchiveStore { return openCopy(t).ProcessLogs() })
}
