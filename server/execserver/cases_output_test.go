package execserver_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// TestC001: a character cut in half between two reads.
func TestC001(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t))
	for _, tty := range []bool{false, true} {
		id, dir := fmt.Sprintf("p-%v", tty), privateDir(t)
		c.start(id, dir, sh(`printf '\342'; until [ -e 1 ]; do sleep 0.01; done; printf '\202'; until [ -e 2 ]; do sleep 0.01; done; printf '\254\000\377'`), object{"tty": tty})
		for n := range 2 { // each byte is read before the next is printed
			c.process(fmt.Sprintf("byte %d of %s", n+1, id), id, func(h *heard) bool { return h.bytes == n+1 })
			mustFile(t, dir, fmt.Sprintf("write %d x", n+1))
		}
		h := c.closed(id)
		if want := []byte("\xe2\x82\xac\x00\xff"); !bytes.Equal(h.output(""), want) {
			t.Errorf("tty=%v: output % x, want % x", tty, h.output(""), want)
		}
		if len(h.chunks) < 2 {
			t.Errorf("tty=%v: %d chunks: the character was not cut", tty, len(h.chunks))
		}
		chunks, _ := c.readAll(id)
		for _, chunk := range append(chunks, h.chunks...) {
			if bytes.Contains(chunk.Chunk, []byte("\ufffd")) {
				t.Errorf("tty=%v: a chunk has a replacement character: % x", tty, chunk.Chunk)
			}
		}
	}
}

// TestC002: the tail of a fast, large output is missing.
func TestC002(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	script := sh(`head -c 300000 /dev/zero | tr '\0' x; printf END`)
	check := func(id string) {
		h := c.closed(id)
		out := h.output("")
		if len(out) != 300003 || !bytes.HasSuffix(out, []byte("END")) || h.exitCode != 0 {
			t.Errorf("%s: %d bytes, end %.10q, exit code %d", id, len(out), out[max(0, len(out)-10):], h.exitCode)
		}
		for _, chunk := range h.chunks {
			if chunk.Seq >= h.closeSeq {
				t.Errorf("%s: output %d after the close %d", id, chunk.Seq, h.closeSeq)
			}
		}
	}
	for i := range 100 / fewer {
		id := fmt.Sprintf("p%d", i)
		c.start(id, dir, script, object{"tty": i%2 == 1})
		check(id)
	}
	var ids, requests []string
	for i := range 16 {
		id := fmt.Sprintf("q%d", i)
		ids = append(ids, id)
		requests = append(requests, c.send("process/start", startParams(id, fileURI(dir), script, object{"tty": i%2 == 1})))
	}
	for i, id := range ids {
		if f := c.await(requests[i]); f.Error != nil {
			t.Fatalf("start %s: %v", id, f.Error)
		}
		check(id)
	}
}

// TestC003: end of a terminal session reported as an I/O error.
func TestC003(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t))
	h := c.run("p1", privateDir(t), sh(`printf 'a\nb\n'`), object{"tty": true})
	if out := string(h.output("pty")); out != "a\r\nb\r\n" || h.exitCode != 0 {
		t.Errorf("output %q, exit code %d", out, h.exitCode)
	}
	var result readResult
	c.must("process/read", object{"processId": "p1", "afterSeq": nil}, &result)
	if result.Failure != nil || !result.Closed || result.ExitCode == nil || *result.ExitCode != 0 {
		t.Errorf("process/read: %+v", result)
	}
}

// TestC004: the shell returned, but a background child keeps stdout open.
func TestC004(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	began := time.Now()
	c.start("p1", dir, sh("sleep 60 & echo hi"), nil)
	var result readResult
	c.must("process/read", object{"processId": "p1", "waitMs": 5000}, &result)
	h := c.exited("p1")
	if took := time.Since(began); took > slack*time.Second {
		t.Errorf("output and exit took %v", took)
	}
	if string(h.output("")) != "hi\n" || h.exitCode != 0 {
		t.Errorf("output %q, exit code %d", h.output(""), h.exitCode)
	}
	c.must("process/read", object{"processId": "p1", "waitMs": 0}, &result)
	if !result.Exited || result.Closed {
		t.Errorf("process/read meanwhile: exited %v, closed %v", result.Exited, result.Closed)
	}
	began = time.Now()
	c.terminate("p1")
	c.closed("p1")
	if took := time.Since(began); took > slack*time.Second {
		t.Errorf("the close took %v", took)
	}
	gone(t, dir)

	// Without terminate the close comes when the descendant ends.
	c.start("p2", dir, sh("sleep 1 & echo hi"), nil)
	if h := c.closed("p2"); h.exitCode != 0 || string(h.output("")) != "hi\n" {
		t.Errorf("output %q, exit code %d", h.output(""), h.exitCode)
	}
}
