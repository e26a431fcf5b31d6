package process_test

import (
	"testing"

	"github.com/wsd-dev/wsd/process"
)

func TestSmoke(t *testing.T) {
	c := connect(t, process.Config{})
	c.run(c.sh("p1", "echo hi; exit 3")).want(t, "hi\n", 3)
	c.run(tty(c.sh("p2", "echo hi; exit 3"))).want(t, "hi\r\n", 3)
}
