package execserver_test

import (
	"testing"
	"time"
)

// TestC010: control keys do nothing in the terminal.
func TestC010(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	tty := object{"tty": true}

	c.start("p1", dir, []string{"cat"}, tty)
	c.writeStdin("p1", []byte("hi\n"))
	c.writeStdin("p1", []byte{4})
	if h := c.closed("p1"); string(h.output("pty")) != "hi\r\nhi\r\n" || h.exitCode != 0 {
		t.Errorf("(a) output %q, exit code %d", h.output(""), h.exitCode)
	}

	c.start("p2", dir, []string{"sleep", "100"}, tty)
	began := time.Now()
	c.writeStdin("p2", []byte{3})
	if h := c.closed("p2"); h.exitCode == 0 {
		t.Error("(b) exit code 0")
	}
	if took := time.Since(began); took > slack*time.Second {
		t.Errorf("(b) took %v", took)
	}

	if h := c.run("p3", dir, sh("echo ok > /dev/tty"), tty); string(h.output("pty")) != "ok\r\n" || h.exitCode != 0 {
		t.Errorf("(c) output %q, exit code %d", h.output(""), h.exitCode)
	}
}

// TestC011: the terminal starts with size 0 × 0.
func TestC011(t *testing.T) {
	t.Parallel()
	url := serve(t)
	c, dir := newClient(t, dialWebSocket(t, url)), privateDir(t)
	var first struct{ SessionID string }
	c.must("initialize", object{"clientName": "cases"}, &first)
	c.sendRaw(`{"method":"initialized"}`)
	tty := object{"tty": true}
	if h := c.run("p1", dir, []string{"stty", "size"}, tty); string(h.output("pty")) != "24 80\r\n" {
		t.Errorf("size %q", h.output("pty"))
	}
	c.start("p2", dir, sh("trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done"), tty)
	c.printed("p2", "ready")
	resize := func(rows, cols int) *frame {
		return c.call("process/resize", object{"processId": "p2", "rows": rows, "cols": cols})
	}
	if f := resize(50, 132); f.Error != nil {
		t.Fatal(f.Error)
	}
	c.printed("p2", "50 132\r\n")

	c.drop()
	c = newClient(t, dialWebSocket(t, url))
	c.rules.resumed.Store(true)
	eventually(t, "the session", func() bool {
		return c.call("initialize", object{"clientName": "cases", "resumeSessionId": first.SessionID}).Error == nil
	})
	c.sendRaw(`{"method":"initialized"}`)
	if f := resize(51, 133); f.Error != nil {
		t.Fatal(f.Error)
	}
	c.printed("p2", "51 133\r\n")
	for _, size := range []int{0, 65535} {
		f := resize(size, size)
		if f.Error != nil {
			c.mustRefuse(f, "resize", -32602)
			continue
		}
		if size == 0 {
			t.Error("a size of 0 is taken")
		}
	}
	c.terminate("p2")
	c.closed("p2")
	c.quiet = true // p1 and p2 began on the other connection
}
