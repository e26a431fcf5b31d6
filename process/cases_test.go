package process_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

// both runs a test with pipes and with a terminal.
func both(t *testing.T, fn func(t *testing.T, tty bool)) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty=%v", tty), func(t *testing.T) { fn(t, tty) })
	}
}

func TestC001CharacterCutBetweenReads(t *testing.T) {
	both(t, func(t *testing.T, tty bool) {
		c := connect(t)
		p := c.sh("p1", `printf '\342'; read x; printf '\202'; read x; printf '\254\000\377'`)
		p.TTY, p.PipeStdin = tty, true
		if tty {
			p.Argv[2] = "stty -echo; " + p.Argv[2]
		}
		c.start(p)
		for _, prefix := range []string{"\xe2", "\xe2\x82"} { // one read each
			c.awaitOutput("p1", prefix)
			c.write("p1", "\n")
		}
		c.finish("p1").want(t, "\xe2\x82\xac\x00\xff", 0)
		var kept []byte
		for _, chunk := range c.read(&protocol.ReadParams{ProcessID: "p1"}).Chunks {
			kept = append(kept, chunk.Chunk...)
		}
		if string(kept) != "\xe2\x82\xac\x00\xff" {
			t.Errorf("read returned %q", kept)
		}
	})
}

func TestC002TailOfFastLargeOutput(t *testing.T) {
	c := connect(t)
	check := func(id string) {
		r := c.finish(id)
		if len(r.out) != 300_003 || !bytes.HasSuffix(r.out, []byte("END")) || r.exited.ExitCode != 0 {
			t.Errorf("%s: %d bytes, ending in %q, code %d", id, len(r.out), r.out[max(0, len(r.out)-8):], r.exited.ExitCode)
		}
		if r.exited.Seq != uint64(len(r.seqs)-1) {
			t.Errorf("%s: exited is event %d of %d, before the end of the output", id, r.exited.Seq, len(r.seqs))
		}
	}
	params := func(i int) *protocol.StartParams {
		p := c.sh(fmt.Sprint("p", i), "head -c 300000 /dev/zero | tr '\\0' x; printf END")
		p.TTY = i%2 == 1
		return p
	}
	for i := range 100 {
		c.start(params(i))
		check(fmt.Sprint("p", i))
	}
	for i := 200; i < 216; i++ {
		c.start(params(i))
	}
	for i := 200; i < 216; i++ {
		check(fmt.Sprint("p", i))
	}
}

func TestC003EndOfTerminalIsNoError(t *testing.T) {
	c := connect(t)
	c.run(tty(c.sh("p1", `printf 'a\nb\n'`))).want(t, "a\r\nb\r\n", 0)
	if r := c.read(&protocol.ReadParams{ProcessID: "p1"}); r.Failure != nil || !r.Closed || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("read returned %+v", r)
	}
}

func TestC004DescendantKeepsStdoutOpen(t *testing.T) {
	c := connect(t)
	begin := time.Now()
	c.start(c.sh("p1", "sleep 60 & echo $!"))
	r := c.await("p1", "exited", func(r *record) bool { return r.exited != nil })
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("exited after %v", took)
	}
	if r.exited.ExitCode != 0 || r.exited.Seq != 2 {
		t.Errorf("exited is %+v", r.exited)
	}
	if got := c.read(&protocol.ReadParams{ProcessID: "p1", WaitMs: ptr[uint64](5000)}); !got.Exited || got.Closed || len(got.Chunks) != 1 {
		t.Errorf("read returned %+v", got)
	}
	var sleeper int
	fmt.Sscan(string(r.out), &sleeper)
	if running := c.terminate("p1"); running {
		t.Error("terminate says that the shell was running")
	}
	c.finish("p1")
	eventually(t, "end of the descendant", func() bool { return unix.Kill(sleeper, 0) == unix.ESRCH || isZombie(sleeper) })
}

// TestC004ClosedComesWithTheDescendant is the case without terminate.
func TestC004ClosedComesWithTheDescendant(t *testing.T) {
	c := connect(t)
	p := pipeStdin(c.sh("p1", "exec 3<&0; { read x <&3; echo late; } & echo hi"))
	c.start(p)
	r := c.await("p1", "exited", func(r *record) bool { return r.exited != nil })
	if string(r.out) != "hi\n" || r.closed {
		t.Errorf("with exited: %q, closed %v", r.out, r.closed)
	}
	c.write("p1", "\n") // lets the descendant go on
	r = c.finish("p1")
	r.want(t, "hi\nlate\n", 0)
	if r.exited.Seq != 2 || len(r.seqs) != 4 {
		t.Errorf("exited is event %d of %d", r.exited.Seq, len(r.seqs))
	}
}

func TestC005TerminateTakesTheChildren(t *testing.T) {
	both(t, func(t *testing.T, tty bool) {
		c := connect(t)
		start := func(id string) []int {
			p := c.sh(id, "sleep 301 & echo $!; sleep 302 & echo $!; echo ready; wait")
			p.TTY = tty
			c.start(p)
			var a, b int
			fmt.Sscan(string(c.awaitOutput(id, "ready").out), &a, &b)
			if a == 0 || b == 0 {
				t.Fatal("no pids printed")
			}
			return []int{a, b}
		}
		gone := func(pids []int) {
			for _, pid := range pids {
				eventually(t, "end of the children", func() bool { return unix.Kill(pid, 0) == unix.ESRCH || isZombie(pid) })
			}
		}
		pids := start("p1")
		if !c.terminate("p1") {
			t.Error("first terminate: not running")
		}
		r := c.finish("p1")
		if want := map[bool]int{false: 137, true: 1}[tty]; r.exited.ExitCode != want || r.exited.Signal != "SIGKILL" {
			t.Errorf("exited is %+v, want code %d", r.exited, want)
		}
		gone(pids)
		if c.terminate("p1") {
			t.Error("second terminate: running")
		}
		pids = start("p2")
		if err := c.service.Close(); err != nil {
			t.Error(err)
		}
		gone(pids)
	})
}

func TestC006ProgramThatIgnoresSignals(t *testing.T) {
	c := connect(t)
	c.start(c.sh("p1", "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done"))
	c.awaitOutput("p1", "ready")
	if !c.terminate("p1") {
		t.Error("not running")
	}
	if r := c.finish("p1"); r.exited.ExitCode != 137 {
		t.Errorf("exit code %d", r.exited.ExitCode)
	}
}

func TestC007KilledBySignal(t *testing.T) {
	both(t, func(t *testing.T, tty bool) {
		c := connect(t)
		for i, want := range []struct {
			script string
			pipes  int
			tty    int
			signal string
		}{
			{"kill -9 $$", 137, 1, "SIGKILL"},
			{"kill -15 $$", 143, 1, "SIGTERM"},
			{"kill -34 $$", 162, 1, "SIG34"},
			{"exit 255", 255, 255, ""},
			{"exit 137", 137, 137, ""},
		} {
			id := fmt.Sprint("p", i)
			p := c.sh(id, want.script)
			p.TTY = tty
			r := c.run(p)
			code := want.pipes
			if tty {
				code = want.tty
			}
			read := c.read(&protocol.ReadParams{ProcessID: id})
			if r.exited.ExitCode != code || r.exited.Signal != want.signal {
				t.Errorf("%s: exited is %+v, want code %d and signal %q", want.script, r.exited, code, want.signal)
			}
			if read.ExitCode == nil || *read.ExitCode != code || read.Signal != want.signal {
				t.Errorf("%s: read says %+v", want.script, read)
			}
		}
	})
}

func TestC008WriteToProgramThatLeft(t *testing.T) {
	c := connect(t)
	c.start(pipeStdin(c.params("p1", "true")))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if status, err := c.tryWrite("p1", strings.Repeat("x", 200<<10), nil); err != nil || status != protocol.WriteAccepted {
				t.Errorf("write to p1: %q, %v", status, err)
			}
		})
	}
	wg.Wait()
	c.finish("p1").want(t, "", 0)

	c.start(pipeStdin(c.params("p2", "head", "-c", "1")))
	c.write("p2", strings.Repeat("y", 1<<20))
	c.finish("p2").want(t, "y", 0)
	c.write("p2", "after the end") // kept: accepted, and of no effect
	c.run(c.sh("p3", "echo alive")).want(t, "alive\n", 0)
}

func TestC009StdinIsNull(t *testing.T) {
	c := connect(t)
	c.start(c.params("p1", "cat"))
	if status, err := c.tryWrite("p1", "x", nil); err != nil || status != protocol.WriteStdinClosed {
		t.Errorf("write: %q, %v", status, err)
	}
	c.finish("p1").want(t, "", 0)
	c.run(c.sh("p2", "readlink /proc/self/fd/0")).want(t, "/dev/null\n", 0)
}

func TestC010ControlKeys(t *testing.T) {
	c := connect(t)
	c.start(tty(c.params("p1", "cat")))
	c.write("p1", "hi\n")
	c.awaitOutput("p1", "hi\r\nhi\r\n")
	c.write("p1", "\x04")
	c.finish("p1").want(t, "hi\r\nhi\r\n", 0)

	c.start(tty(c.sh("p2", "echo ready; exec sleep 100")))
	c.awaitOutput("p2", "ready")
	c.write("p2", "\x03")
	if r := c.finish("p2"); r.exited.ExitCode != 1 || r.exited.Signal != "SIGINT" {
		t.Errorf("p2: exited is %+v", r.exited)
	}
	c.run(tty(c.sh("p3", "echo ok > /dev/tty"))).want(t, "ok\r\n", 0)
}

func TestC011TerminalSize(t *testing.T) {
	c := connect(t)
	c.run(tty(c.params("p1", "stty", "size"))).want(t, "24 80\r\n", 0)
	p := tty(c.params("p2", "stty", "size"))
	p.Size = &protocol.TerminalSize{Rows: 50, Cols: 132}
	c.run(p).want(t, "50 132\r\n", 0)

	c.start(tty(c.sh("p3", "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done")))
	c.awaitOutput("p3", "ready")
	resize := func(id string, rows, cols uint32) error {
		return c.call(protocol.MethodProcessResize, &protocol.ResizeParams{ProcessID: id, Rows: rows, Cols: cols}, nil)
	}
	for _, absurd := range [][2]uint32{{0, 0}, {0, 80}, {24, 0}, {65535, 65535}, {10_001, 80}, {1 << 31, 80}} {
		wantError(t, resize("p3", absurd[0], absurd[1]), protocol.CodeInvalidParams, "")
	}
	if err := resize("p3", 10_000, 132); err != nil {
		t.Error(err)
	}
	c.finish("p3").want(t, "ready\r\n10000 132\r\n", 0)
	if err := resize("p3", 24, 80); err != nil {
		t.Errorf("after the end: %v", err)
	}
	wantError(t, resize("nope", 24, 80), protocol.CodeInvalidRequest, "")
	c.start(c.params("p4", "sleep", "100"))
	wantError(t, resize("p4", 24, 80), protocol.CodeInvalidRequest, "")
}

func TestC012LargeArguments(t *testing.T) {
	c := connect(t)
	c.run(c.params("p0", "true", strings.Repeat("x", 131_071))).want(t, "", 0)
	big := c.params("p2", "true")
	big.Env["K"] = strings.Repeat("x", 131_070)
	many := c.params("p3", "true")
	for range 20 {
		many.Argv = append(many.Argv, strings.Repeat("x", 130_000))
	}
	for _, p := range []*protocol.StartParams{c.params("p1", "true", strings.Repeat("x", 131_072)), big, many} {
		_, err := c.tryStart(p)
		failure := wantError(t, err, protocol.CodeInternal, protocol.KindSpawnFailed)
		if !strings.Contains(failure.Message, "too long") {
			t.Errorf("%s: message is %q", p.ProcessID, failure.Message)
		}
		c.run(c.params(p.ProcessID, "true")).want(t, "", 0) // checks that no event was sent before
	}
}

func TestC013MissingDirectory(t *testing.T) {
	c := connect(t)
	file := c.file("regular", "", 0o644)
	for _, tt := range []struct{ dir, kind string }{
		{c.dir + "/gone", protocol.KindSpawnNotFound},
		{file, protocol.KindSpawnFailed},
	} {
		both(t, func(t *testing.T, tty bool) {
			p := c.sh("p1", "echo hi")
			p.TTY, p.Cwd = tty, "file://"+tt.dir
			_, err := c.tryStart(p)
			failure := wantError(t, err, protocol.CodeInternal, tt.kind)
			if !strings.Contains(failure.Message, tt.dir) || strings.Contains(failure.Message, "sh:") {
				t.Errorf("message is %q", failure.Message)
			}
		})
	}
	c.run(c.sh("p1", "echo hi")).want(t, "hi\n", 0)
	_, err := c.tryStart(c.params("p2", "no-such-program"))
	if failure := wantError(t, err, protocol.CodeInternal, protocol.KindSpawnNotFound); !strings.Contains(failure.Message, "no-such-program") {
		t.Errorf("message is %q", failure.Message)
	}
}

func TestC014ExecutableText(t *testing.T) {
	c := connect(t)
	c.file("a", "echo bar $1\n", 0o755)
	c.file("b", "#!/bin/sh\necho b\n", 0o644)
	c.file("c", "#!/no/such/interpreter -x\necho c\n", 0o755)
	c.file("d", "#!/bin/sh\r\necho d\r\n", 0o755)
	c.file("e", "\x7fELF\x00\x00junk", 0o755)
	both(t, func(t *testing.T, tty bool) {
		try := func(code protocol.Code, kind string, argv ...string) string {
			t.Helper()
			p := c.params("p1", argv...)
			p.TTY = tty
			_, err := c.tryStart(p)
			return wantError(t, err, code, kind).Message
		}
		end := map[bool]string{false: "\n", true: "\r\n"}[tty]
		p := c.params(fmt.Sprint("a-", tty), "./a", "1")
		p.TTY = tty
		c.run(p).want(t, "bar 1"+end, 0)

		try(protocol.CodeInternal, protocol.KindSpawnPermissionDenied, "./b")
		try(protocol.CodeInternal, protocol.KindSpawnPermissionDenied, c.dir)
		for name, interpreter := range map[string]string{"./c": `/no/such/interpreter`, "./d": `/bin/sh\r`} {
			message := try(protocol.CodeInternal, protocol.KindSpawnNotFound, name)
			if !strings.Contains(message, name) || !strings.Contains(message, interpreter) || !strings.Contains(message, "missing") {
				t.Errorf("%s: message is %q", name, message)
			}
		}
		if message := try(protocol.CodeInternal, protocol.KindSpawnFailed, "./e"); !strings.Contains(message, "format error") {
			t.Errorf("message is %q", message)
		}
		try(protocol.CodeInvalidParams, protocol.KindSpawnFailed, "")
		try(protocol.CodeInvalidParams, "")
	})
}

func TestC015ProgramInPathOfRequest(t *testing.T) {
	c := connect(t)
	c.file("bin/mytool", "#!/bin/sh\necho mine\n", 0o755)
	c.file("bin/ls", "#!/bin/sh\necho mine\n", 0o755)
	c.file("hidden/mytool", "#!/bin/sh\necho hidden\n", 0o644)
	t.Setenv("PATH", c.dir+"/bin:"+os.Getenv("PATH"))
	path := func(p *protocol.StartParams, path string) *protocol.StartParams {
		p.Env["PATH"] = path
		return p
	}
	c.run(path(c.params("p1", "mytool"), c.dir+"/bin:"+searchPath)).want(t, "mine\n", 0)
	c.run(path(c.params("p2", "ls"), c.dir+"/bin:"+searchPath)).want(t, "mine\n", 0)
	both(t, func(t *testing.T, tty bool) {
		p := c.params("p3", "mytool")
		p.TTY = tty
		_, err := c.tryStart(p)
		wantError(t, err, protocol.CodeInternal, protocol.KindSpawnNotFound)
	})
	// As execvp has it: what cannot be executed is passed over, relative and empty
	// entries are looked up in the child's directory.
	c.run(path(c.params("p4", "mytool"), c.dir+"/hidden:"+c.dir+"/gone::bin/")).want(t, "mine\n", 0)
	_, err := c.tryStart(path(c.params("p5", "mytool"), c.dir+"/hidden:/gone"))
	wantError(t, err, protocol.CodeInternal, protocol.KindSpawnPermissionDenied)
	unset := c.params("p6", "sh", "-c", "echo found")
	delete(unset.Env, "PATH")
	c.run(unset).want(t, "found\n", 0)
	c.file("here", "#!/bin/sh\necho here\n", 0o755)
	c.run(path(c.params("p7", "here"), "")).want(t, "here\n", 0)
}

func TestC016OddEnvironment(t *testing.T) {
	t.Setenv("SECRET", "1")
	c := connect(t)
	p := c.params("p1", "env")
	p.Env["A"], p.Env["E"] = "x=y\nz", ""
	c.run(p).want(t, "A=x=y\nz\nE=\nPATH="+searchPath+"\n", 0)
	for name, tt := range map[string]struct {
		params *protocol.StartParams
		kind   string
	}{
		"NUL in a value":  {withEnv(c.params("p2", "env"), "B", "q\x00r"), protocol.KindSpawnFailed},
		"NUL in a name":   {withEnv(c.params("p2", "env"), "B\x00", ""), protocol.KindSpawnFailed},
		"= in a name":     {withEnv(c.params("p2", "env"), "C=D", "1"), ""},
		"no name":         {withEnv(c.params("p2", "env"), "", "1"), ""},
		"NUL in argv":     {c.params("p2", "echo", "a\x00b"), protocol.KindSpawnFailed},
		"NUL in argv[0]":  {c.params("p2", "a\x00b"), protocol.KindSpawnFailed},
		"NUL in arg0":     {withArg0(c.params("p2", "echo"), "a\x00b"), protocol.KindSpawnFailed},
		"empty argv":      {c.params("p2"), ""},
		"empty argv[0]":   {c.params("p2", "", "x"), protocol.KindSpawnFailed},
		"NUL behind arg0": {withArg0(c.params("p2", "a\x00b"), "echo"), protocol.KindSpawnFailed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.tryStart(tt.params)
			wantError(t, err, protocol.CodeInvalidParams, tt.kind)
		})
	}
	c.run(c.params("p2", "true")).want(t, "", 0) // the id is free
}

func withEnv(p *protocol.StartParams, name, value string) *protocol.StartParams {
	p.Env[name] = value
	return p
}

func withArg0(p *protocol.StartParams, arg0 string) *protocol.StartParams {
	p.Arg0 = &arg0
	return p
}

func TestC019SlowRequestsBlockNothing(t *testing.T) {
	c := connect(t)
	c.start(c.params("p1", "sleep", "120"))
	begin := time.Now()
	var wg sync.WaitGroup
	for range 40 { // more than run at a time
		wg.Go(func() {
			if r := c.read(&protocol.ReadParams{ProcessID: "p1", WaitMs: ptr[uint64](60_000)}); !r.Exited {
				t.Errorf("read returned %+v", r)
			}
		})
	}
	eventually(t, "other requests between the reads", func() bool { return len(c.list(nil)) == 1 })
	if !c.terminate("p1") {
		t.Error("not running")
	}
	wg.Wait()
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("reads returned after %v", took)
	}
	c.finish("p1")
}

// TestC023ReaderThatStops is the process part of the case: the child is held back,
// nothing is lost, and the process can be read and ended meanwhile.
func TestC023ReaderThatStops(t *testing.T) {
	c := connect(t)
	c.start(c.sh("p1", "yes"))
	c.awaitOutput("p1", "y\n")
	c.stall()
	// The child stops when everything between it and the client is full.
	info := func() protocol.ProcessInfo { return c.directInfo("p1") }
	last := uint64(0)
	still := 0
	eventually(t, "stop of the child", func() bool {
		if next := info().NextSeq; next != last {
			last, still = next, 0
		} else {
			still++
		}
		return still > 40
	})
	c.release()
	r := c.await("p1", "more output", func(r *record) bool { return r.seqs[len(r.seqs)-1] > last+10 })
	if trimmed := bytes.Trim(r.out, "y\n"); len(trimmed) != 0 {
		t.Errorf("output is not all y: %q", trimmed)
	}
	if !c.terminate("p1") {
		t.Error("not running")
	}
	c.finish("p1") // the harness checks that no number was skipped
}

// TestC025ReadBehindTheWindow is the exec-server part of the case.
func TestC025ReadBehindTheWindow(t *testing.T) {
	c := connect(t)
	r := c.run(c.params("p1", "head", "-c", "3145728", "/dev/zero"))
	if len(r.out) != 3<<20 {
		t.Fatalf("%d bytes notified", len(r.out))
	}
	got := c.read(&protocol.ReadParams{ProcessID: "p1", AfterSeq: ptr[uint64](1)})
	if len(got.Chunks) == 0 || got.Chunks[0].Seq <= 2 {
		t.Fatal("the beginning is still there")
	}
	total := 0
	for i, chunk := range got.Chunks {
		if chunk.Seq != got.Chunks[0].Seq+uint64(i) {
			t.Errorf("chunk %d has number %d", i, chunk.Seq)
		}
		total += len(chunk.Chunk)
	}
	if total > protocol.MaxRetainedBytes || total < protocol.MaxRetainedBytes-(64<<10) {
		t.Errorf("%d bytes are retained", total)
	}
	if last := got.Chunks[len(got.Chunks)-1].Seq; last+2 != uint64(len(r.seqs)) || got.NextSeq != uint64(len(r.seqs))+1 {
		t.Errorf("last chunk is %d, next is %d, of %d events", last, got.NextSeq, len(r.seqs))
	}
	// A cursor right before the oldest retained chunk loses nothing.
	again := c.read(&protocol.ReadParams{ProcessID: "p1", AfterSeq: ptr(got.Chunks[0].Seq - 1)})
	if len(again.Chunks) != len(got.Chunks) {
		t.Errorf("%d chunks, then %d", len(got.Chunks), len(again.Chunks))
	}
}

// isZombie reports whether a process has ended and its parent has not looked yet.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}
