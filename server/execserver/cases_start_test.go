package execserver_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestC012: very large argument or environment.
func TestC012(t *testing.T) {
	t.Parallel()
	url := serve(t)
	c, dir := dial(t, url), privateDir(t)
	x := func(n int) string { return strings.Repeat("x", n) }
	if h := c.run("p0", dir, []string{"true", x(131071)}, nil); h.exitCode != 0 {
		t.Errorf("131071 bytes: exit code %d", h.exitCode)
	}
	var many []string
	for range 20 {
		many = append(many, x(130000))
	}
	tests := []struct {
		id   string
		argv []string
		with object
		word string
	}{
		{"p1", []string{"true", x(131072)}, nil, "argument"},
		{"p2", []string{"true"}, object{"env": object{"PATH": testPath, "K": x(131070)}}, "environment"},
		{"p3", append([]string{"true"}, many...), nil, "too long"},
		{"p4", []string{"true", x(3 << 20)}, nil, "argument"},
	}
	for _, test := range tests {
		failure := c.refused("process/start", startParams(test.id, fileURI(dir), test.argv, test.with), -32603)
		if text := strings.ToLower(failure.Message); !strings.Contains(text, "too long") || !strings.Contains(text, test.word) {
			t.Errorf("%s: the error is %q", test.id, failure.Message)
		}
		if c.heardOf(test.id) != nil {
			t.Errorf("%s: notifications of a process that did not start", test.id)
		}
		if h := c.run(test.id, dir, []string{"true"}, nil); h.exitCode != 0 {
			t.Errorf("%s again: exit code %d", test.id, h.exitCode)
		}
	}
	c.alive(url)
}

// TestC013: a missing directory blamed on the program.
func TestC013(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	mustFile(t, dir, "write file x", "mkdir closed 000")
	c := dial(t, startServer(t, serverOptions{nobody: true}).url)
	for _, name := range []string{"gone", "file", "closed"} {
		for _, tty := range []bool{false, true} {
			failure := c.refused("process/start", startParams("p1", fileURI(dir)+"/"+name, sh("echo hi"), object{"tty": tty}), -32603)
			mustContain(t, failure, dir+"/"+name)
			if strings.Contains(failure.Message, "sh:") || strings.Contains(failure.Message, "/sh") {
				t.Errorf("the error %q names the program", failure.Message)
			}
		}
	}
	if c.heardOf("p1") != nil {
		t.Error("notifications of a process that did not start")
	}
	mustContain(t, c.refused("process/start", startParams("p2", fileURI(dir), []string{"no-such-program"}, nil), -32603), "no-such-program")
	if h := c.run("p1", dir, sh("echo hi"), nil); h.exitCode != 0 || string(h.output("")) != "hi\n" {
		t.Errorf("with a good cwd: exit code %d, output %q", h.exitCode, h.output(""))
	}
}

// TestC014: executable text without a first line.
func TestC014(t *testing.T) {
	t.Parallel()
	c, dir := dial(t, serve(t)), privateDir(t)
	mustFile(t, dir,
		`write a "echo bar\n"`, "chmod a 755",
		`write b "#!/bin/sh\necho b\n"`, "chmod b 644",
		`write c "#!/no/such/interpreter\n"`, "chmod c 755",
		`write d "#!/bin/sh\r\necho d\r\n"`, "chmod d 755")
	for _, tty := range []bool{false, true} {
		want, id := "bar\n", fmt.Sprintf("a-%v", tty)
		if tty {
			want = "bar\r\n"
		}
		if h := c.run(id, dir, []string{"./a"}, object{"tty": tty}); string(h.output("")) != want || h.exitCode != 0 {
			t.Errorf("./a: output %q, exit code %d", h.output(""), h.exitCode)
		}
		start := func(argv ...string) object { return startParams("p", fileURI(dir), argv, object{"tty": tty}) }
		for _, argv := range []string{"./b", dir} {
			failure := c.refused("process/start", start(argv), -32603)
			if !strings.Contains(strings.ToLower(failure.Message), "permission denied") {
				t.Errorf("%s: %q", argv, failure.Message)
			}
		}
		for _, argv := range []string{"./c", "./d"} {
			mustContain(t, c.refused("process/start", start(argv), -32603), argv[2:], "interpreter")
		}
		c.refused("process/start", start(""), -32602)
		c.refused("process/start", startParams("p", fileURI(dir), []string{}, object{"tty": tty}), -32602)
	}
}

// TestC015: the program found on the wrong PATH.
func TestC015(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	mustFile(t, dir, "mkdir bin",
		`write bin/mytool "#!/bin/sh\necho mine\n"`, "chmod bin/mytool 755",
		`write bin/ls "#!/bin/sh\necho mine\n"`, "chmod bin/ls 755")
	path := dir + "/bin:" + testPath
	c := dial(t, startServer(t, serverOptions{env: []string{"PATH=" + path}}).url)
	for _, tty := range []bool{false, true} {
		for _, name := range []string{"mytool", "ls"} {
			h := c.run(fmt.Sprintf("%s-%v", name, tty), dir, []string{name}, object{"tty": tty, "env": object{"PATH": path}})
			if strings.TrimRight(string(h.output("")), "\r\n") != "mine" {
				t.Errorf("%s prints %q", name, h.output(""))
			}
		}
		failure := c.refused("process/start", startParams("p3", fileURI(dir), []string{"mytool"}, object{"tty": tty}), -32603)
		mustContain(t, failure, "mytool")
	}
}

// TestC016: odd environment entries.
func TestC016(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	c := dial(t, startServer(t, serverOptions{env: []string{"SECRET=1"}}).url)
	h := c.run("p1", dir, []string{"env"}, object{"env": object{"PATH": testPath, "A": "x=y\nz", "E": ""}})
	if got, want := string(h.output("")), "A=x=y\nz\nE=\nPATH="+testPath+"\n"; got != want {
		t.Errorf("p1 prints %q, want %q", got, want)
	}
	env := func(name, value string) object { return object{"env": object{"PATH": testPath, name: value}} }
	tests := []struct {
		argv []string
		with object
	}{
		{[]string{"env"}, env("B", "q\x00r")},
		{[]string{"env"}, env("C=D", "1")},
		{[]string{"env"}, env("", "1")},
		{[]string{"echo", "a\x00b"}, nil},
	}
	for i, test := range tests {
		c.refused("process/start", startParams("p2", fileURI(dir), test.argv, test.with), -32602)
		if h := c.run(fmt.Sprintf("again%d", i), dir, []string{"true"}, nil); h.exitCode != 0 {
			t.Errorf("exit code %d", h.exitCode)
		}
	}
	if c.heardOf("p2") != nil {
		t.Error("notifications of a process that did not start")
	}
	if h := c.run("p2", dir, []string{"true"}, nil); h.exitCode != 0 {
		t.Errorf("the id is not free: exit code %d", h.exitCode)
	}

	// A name that stands twice: one of them, or a rejection.
	c.sendRaw(`{"id":"p5","method":"process/start","params":{"processId":"p5","argv":["env"],"cwd":"` + fileURI(dir) +
		`","env":{"PATH":"` + testPath + `","A":"1","A":"2"},"tty":false}}`)
	var answer *frame
	c.until("an answer", func() bool {
		if answer = c.replies[`"p5"`]; answer == nil && len(c.faults) > 0 {
			answer = c.faults[0]
		}
		return answer != nil
	})
	if answer.Error != nil {
		return
	}
	if h := c.closed("p5"); !strings.HasPrefix(string(h.output("")), "A=2\nPATH=") {
		t.Errorf("p5 prints %q", h.output(""))
	}
	if _, ok := os.LookupEnv("SECRET"); ok {
		t.Error("SECRET is set in the test itself")
	}
}
