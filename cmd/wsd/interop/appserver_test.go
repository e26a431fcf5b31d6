//go:build interop

package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// An appServer is a running `codex app-server`, driven over its stdio.
type appServer struct {
	t       *testing.T
	stdin   io.WriteCloser
	mu      sync.Mutex
	lastID  int
	waiting map[int]chan json.RawMessage
	turns   chan string // the status of each turn that has ended
	log     *lockedBuffer
}

// newAppServer starts the client, adds s as its environment and opens a thread in the
// workspace. It returns the thread's id.
func newAppServer(t *testing.T, h home, s *setup, thread map[string]any) (*appServer, string) {
	t.Helper()
	cmd := exec.Command(codexPath, "app-server")
	cmd.Dir, cmd.Env = s.workspace, h.environ()
	a := &appServer{t: t, waiting: map[int]chan json.RawMessage{}, turns: make(chan string, 16), log: &lockedBuffer{}}
	cmd.Stderr = a.log
	cmd.WaitDelay = 2 * time.Second
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	a.stdin = stdin
	read := make(chan struct{})
	go func() { // ends when the client closes its stdout
		defer close(read)
		a.read(stdout)
	}()
	t.Cleanup(func() {
		stdin.Close()
		select {
		case <-read:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-read
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("client's log:\n%s", a.log)
		}
	})
	a.call("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "wsd-interop", "title": "wsd", "version": "0"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	a.send(map[string]any{"method": "initialized"})
	environment := map[string]any{"environmentId": "under-test", "execServerUrl": s.tap.URL}
	for k, v := range s.environment {
		environment[k] = v
	}
	a.call("environment/add", environment, nil)
	params := map[string]any{
		"cwd": s.workspace, "approvalPolicy": "never", "sandbox": "danger-full-access",
		"environments": []any{map[string]any{"environmentId": "under-test", "cwd": s.workspace}},
	}
	for k, v := range thread {
		params[k] = v
	}
	var started struct{ Thread struct{ ID string } }
	a.call("thread/start", params, &started)
	return a, started.Thread.ID
}

func (a *appServer) send(msg map[string]any) {
	a.t.Helper()
	text, err := json.Marshal(msg)
	if err == nil {
		_, err = a.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		a.t.Fatalf("app-server: %v", err)
	}
}

// call sends a request and decodes its result.
func (a *appServer) call(method string, params, result any) {
	a.t.Helper()
	a.mu.Lock()
	a.lastID++
	id, answer := a.lastID, make(chan json.RawMessage, 1)
	a.waiting[id] = answer
	a.mu.Unlock()
	a.send(map[string]any{"id": id, "method": method, "params": params})
	select {
	case raw := <-answer:
		var all struct{ Result, Error json.RawMessage }
		if err := json.Unmarshal(raw, &all); err != nil || all.Error != nil {
			a.t.Fatalf("%s: %s", method, raw)
		}
		if result != nil {
			if err := json.Unmarshal(all.Result, result); err != nil {
				a.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(turnTimeout):
		a.t.Fatalf("%s: no answer", method)
	}
}

func (a *appServer) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Turn struct {
					Status string
					Error  json.RawMessage
				}
			}
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		switch {
		case m.Method == "turn/completed":
			status := m.Params.Turn.Status
			if e := m.Params.Turn.Error; len(e) > 0 && string(e) != "null" {
				status += ": " + string(e)
			}
			a.turns <- status
		case m.Method == "" && m.ID != nil:
			var id int
			if json.Unmarshal(m.ID, &id) != nil {
				continue
			}
			a.mu.Lock()
			answer := a.waiting[id]
			delete(a.waiting, id)
			a.mu.Unlock()
			if answer != nil {
				answer <- line
			}
		}
	}
}

// begin starts a turn; the channel gives its status when it has ended.
func (a *appServer) begin(thread string) <-chan string {
	a.t.Helper()
	a.call("turn/start", map[string]any{
		"threadId": thread,
		"input":    []any{map[string]any{"type": "text", "text": "run the tool"}},
	}, nil)
	return a.turns
}

// finish waits until the turn has ended well.
func (a *appServer) finish(turn <-chan string) {
	a.t.Helper()
	select {
	case status := <-turn:
		if status != "completed" {
			a.t.Errorf("the turn ended with status %s", status)
		}
	case <-time.After(turnTimeout):
		a.t.Fatal("the turn does not end")
	}
}

// turn runs a whole turn.
func (a *appServer) turn(thread string) {
	a.t.Helper()
	a.finish(a.begin(thread))
}
