package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// stdioServer has wsd serve input on stdio and returns what it wrote and its status.
func stdioServer(t *testing.T, input string, args ...string) (lines []string, status int) {
	t.Helper()
	cmd := program(t, append([]string{"serve", "--listen", "stdio", "--log-level", "warn"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if status != 0 {
		t.Logf("the server's log:\n%s", &log)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), status
}

const handshake = `{"id":0,"method":"initialize","params":{"clientName":"e2e"}}` + "\n" + `{"method":"initialized","params":{}}` + "\n"

// The original loses the answer to a request right before the end of its input in two
// runs of five.
func TestStdioAnswersAllBeforeTheEnd(t *testing.T) {
	const requests = 300
	for _, tail := range []string{"\n", "", "\r\n\n"} {
		var in strings.Builder
		in.WriteString(handshake)
		for id := 1; id <= requests; id++ {
			in.WriteString(fmt.Sprintf(`{"id":%d,"method":"environment/status"}`, id))
			if id < requests {
				in.WriteString("\n")
			}
		}
		lines, status := stdioServer(t, in.String()+tail)
		if status != 0 {
			t.Errorf("tail %q: exit status %d", tail, status)
		}
		answered := make(map[int]bool)
		for _, line := range lines {
			var m struct {
				ID     int             `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Result == nil {
				t.Errorf("answer %s: %v", line, err)
			}
			answered[m.ID] = true
		}
		if len(answered) != requests+1 {
			t.Errorf("tail %q: %d of %d requests were answered", tail, len(answered), requests+1)
		}
	}
}

// A push and all of its stream in one write are answered.
func TestF3PushAndItsStreamInOneWrite(t *testing.T) {
	for name, tt := range map[string]struct{ behind, want string }{
		"an end":   {"", `"applied":0`},
		"an entry": {`{"method":"stream/items","params":{"streamId":"a","items":[{"kind":"dir","rev":1,"path":"/workspace/d","mode":493,"mtime":1}]}}` + "\n", `"applied":1`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lines, _ := stdioServer(t, handshake+
				`{"id":1,"method":"sync/push","params":{"senderRev":1,"changes":{"streamId":"a"}}}`+"\n"+tt.behind+
				`{"method":"stream/end","params":{"streamId":"a"}}`+"\n", "--workspace", dir, "--store", filepath.Join(t.TempDir(), "store"))
			if all := strings.Join(lines, "\n"); !strings.Contains(all, tt.want) {
				t.Errorf("the push was not answered with %s:\n%s", tt.want, all)
			}
		})
	}
}

// The end of the input ends the session and what it runs.
func TestStdioEndKillsChildren(t *testing.T) {
	lines, status := stdioServer(t, handshake+
		`{"id":1,"method":"process/start","params":{"processId":"p","argv":["/bin/sh","-c","echo $$; exec sleep 600"],"cwd":"file:///","env":{},"tty":false}}`+"\n"+
		`{"id":2,"method":"process/read","params":{"processId":"p","waitMs":10000}}`+"\n")
	if status != 0 {
		t.Errorf("exit status %d", status)
	}
	for _, line := range lines {
		var m struct {
			ID     int `json:"id"`
			Result struct {
				Chunks []struct{ Chunk []byte }
			} `json:"result"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.ID != 2 || len(m.Result.Chunks) == 0 {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(m.Result.Chunks[0].Chunk)))
		if err != nil {
			t.Fatal(err)
		}
		if !gone(pid) {
			t.Errorf("process %d outlived its session", pid)
		}
		return
	}
	t.Errorf("no output in\n%s", strings.Join(lines, "\n"))
}

// A line that is no message is answered, and the rest still counts.
func TestStdioBadLine(t *testing.T) {
	lines, status := stdioServer(t, "{oops\n"+handshake)
	if status != 0 || len(lines) != 2 {
		t.Fatalf("status %d, %q", status, lines)
	}
	const want = `{"error":{"code":-32600,"message":"failed to parse JSON-RPC message from exec-server stdio: `
	if !strings.HasPrefix(lines[0], want) || !strings.HasSuffix(lines[0], `"id":-1}`) {
		t.Errorf("%s, want %s...", lines[0], want)
	}
}
