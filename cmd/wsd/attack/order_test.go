//go:build attack && linux

package attack

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/fs/fileuri"
)

// A request of a chain, which is sent in one go and of which some build upon others.
type request struct {
	method string
	params map[string]any
	// right says what is wrong with the answer. nil: it must be no error.
	right func(answer raw.Message) error
}

// but is r with another check.
func (r request) but(right func(raw.Message) error) request {
	r.right = right
	return r
}

// order sends 40 chains, all of them before it looks at an answer, and counts the answers
// that are wrong.
func (s *server) order(c *raw.Client, name string, chain func(i int, dir string) []request) {
	s.w.Helper()
	const chains = 40
	sent := make(map[int64]request)
	var batch [][]byte
	for i := range chains {
		dir := filepath.Join(s.w.dir, fmt.Sprintf("%s-%d", strings.ReplaceAll(name, "/", "-"), i))
		s.w.mkdir(dir)
		for _, r := range chain(i, dir) {
			id, msg, err := c.Encode(r.method, r.params)
			if err != nil {
				s.w.Fatal(err)
			}
			sent[id] = r
			batch = append(batch, msg)
		}
	}
	for _, msg := range batch {
		if err := c.Send(msg); err != nil {
			s.w.Fatal(err)
		}
	}
	wrong, example := 0, ""
	for len(sent) > 0 {
		m, err := c.Read()
		if err != nil {
			s.w.Fatal(err)
		}
		if m.Method != "" {
			continue
		}
		r := sent[m.ID]
		delete(sent, m.ID)
		if r.right == nil {
			r.right = succeeded
		}
		if err := r.right(m); err != nil {
			wrong++
			example = fmt.Sprintf("%s: %v: %.300s", r.method, err, m.Raw)
		}
	}
	if wrong > 0 {
		s.w.Errorf("%s: %d wrong of %d, such as %s", name, wrong, chains, example)
	}
}

// to makes a request with parameters that are given as name, value, name, value.
func to(method string, params ...any) request {
	r := request{method: method, params: make(map[string]any)}
	for i := 0; i < len(params); i += 2 {
		r.params[params[i].(string)] = params[i+1]
	}
	return r
}

func succeeded(answer raw.Message) error {
	if answer.Failed {
		return errors.New("refused")
	}
	return nil
}

func refused(answer raw.Message) error {
	if !answer.Failed {
		return errors.New("not refused")
	}
	return nil
}

// has makes a check that the answer has text.
func has(text string) func(raw.Message) error {
	return func(answer raw.Message) error {
		if answer.Failed || !strings.Contains(string(answer.Raw), text) {
			return fmt.Errorf("there is no %q", text)
		}
		return nil
	}
}

func TestOrder(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil, "--workspace", w.dir, "--store", filepath.Join(w.home, "s.db"))
		c := s.raw()
		ids := 0
		start := func(dir string, argv ...string) request {
			ids++
			return to("process/start", "processId", fmt.Sprintf("p%d", ids), "argv", argv, "cwd", fileuri.Format(dir),
				"env", map[string]string{"PATH": os.Getenv("PATH")}, "tty", false, "arg0", nil)
		}
		on := func(method, path string, more ...any) request {
			return to(method, append([]any{"path", fileuri.Format(path)}, more...)...)
		}
		between := func(method, from, onto string) request {
			return to(method, "sourcePath", fileuri.Format(from), "destinationPath", fileuri.Format(onto), "recursive", false)
		}
		walk := map[string]any{"maxDepth": 9, "maxDirectories": 9, "maxEntries": 9, "followDirectorySymlinks": false}
		script := []byte("#!/bin/sh\nexit 0\n")
		write := func(path string) request { return on("fs/writeFile", path, "dataBase64", script, "mode", 0o755) }
		grep := func(dir string) request { return on("fs/grep", dir, "pattern", "exit 0") }
		// there makes a file that the chain begins with.
		there := func(path string) string {
			w.write(path, string(script), 0o755)
			return path
		}
		for name, chain := range map[string]func(i int, dir string) []request{
			"createDirectory, start in it": func(_ int, dir string) []request {
				sub := filepath.Join(dir, "a/b/c")
				return []request{on("fs/createDirectory", sub, "recursive", true), start(sub, "true")}
			},
			"writeFile, start it": func(_ int, dir string) []request {
				f := filepath.Join(dir, "run")
				return []request{write(f), start(dir, f)}
			},
			"writeFile, chmod, start it": func(_ int, dir string) []request {
				f := filepath.Join(dir, "run")
				return []request{on("fs/writeFile", f, "dataBase64", script), on("fs/chmod", f, "mode", 0o755), start(dir, f)}
			},
			"writeFile, grep": func(_ int, dir string) []request {
				return []request{write(filepath.Join(dir, "f")), grep(dir).but(has(`"line":2`))}
			},
			"writeFile, glob": func(_ int, dir string) []request {
				return []request{write(filepath.Join(dir, "found")), on("fs/glob", dir, "pattern", "**").but(has("found"))}
			},
			"open, writeBlock, close, grep": func(i int, dir string) []request {
				id := fmt.Sprintf("h%d", i)
				return []request{
					on("fs/open", filepath.Join(dir, "f"), "handleId", id, "mode", "replace"),
					to("fs/writeBlock", "handleId", id, "offset", 0, "chunk", script),
					to("fs/close", "handleId", id), grep(dir).but(has(`"line":2`)),
				}
			},
			"copy, start it": func(_ int, dir string) []request {
				f := filepath.Join(dir, "copied")
				return []request{between("fs/copy", there(filepath.Join(dir, "f")), f), start(dir, f)}
			},
			"rename, start it": func(_ int, dir string) []request {
				f := filepath.Join(dir, "renamed")
				return []request{between("fs/rename", there(filepath.Join(dir, "f")), f), start(dir, f)}
			},
			"symlink, start in it": func(_ int, dir string) []request {
				link := filepath.Join(dir, "link")
				return []request{on("fs/symlink", link, "target", dir), start(link, "true")}
			},
			"remove, start it": func(_ int, dir string) []request {
				f := there(filepath.Join(dir, "f"))
				return []request{on("fs/remove", f), start(dir, f).but(refused)}
			},
			"remove, grep": func(_ int, dir string) []request {
				return []request{on("fs/remove", there(filepath.Join(dir, "f"))), grep(dir).but(has(`"matches":[]`))}
			},
			"remove, glob": func(_ int, dir string) []request {
				return []request{on("fs/remove", there(filepath.Join(dir, "f"))), on("fs/glob", dir, "pattern", "**").but(has(`"entries":[]`))}
			},
			"readFile, writeFile, readFile": func(_ int, dir string) []request {
				f := there(filepath.Join(dir, "f"))
				old, now := has(base64.StdEncoding.EncodeToString(script)), has(base64.StdEncoding.EncodeToString([]byte("new")))
				return []request{on("fs/readFile", f).but(old), on("fs/writeFile", f, "dataBase64", []byte("new")), on("fs/readFile", f).but(now)}
			},
			"start it, remove, start it": func(_ int, dir string) []request {
				f := there(filepath.Join(dir, "f"))
				return []request{start(dir, f), on("fs/remove", f), start(dir, f).but(refused)}
			},
			"writeFile, getMetadata, readDirectory, walk": func(_ int, dir string) []request {
				f := filepath.Join(dir, "found")
				return []request{write(f), on("fs/getMetadata", f), on("fs/readDirectory", dir).but(has("found")), on("fs/walk", dir, "options", walk).but(has("found"))}
			},
			"start, list": func(_ int, dir string) []request {
				r := start(dir, "true")
				return []request{r, to("process/list").but(has(fmt.Sprintf("%q", r.params["processId"])))}
			},
			"createDirectory, watch": func(i int, dir string) []request {
				sub := filepath.Join(dir, "sub")
				return []request{on("fs/createDirectory", sub, "recursive", false), on("fs/watch", sub, "watchId", fmt.Sprintf("w%d", i))}
			},
			"exec, killExec, list": func(i int, _ string) []request {
				id := fmt.Sprintf("run-%d", i)
				return []request{to("shell/exec", "command", "true", "id", id), to("shell/killExec", "id", id), to("shell/list", "ended", true).but(has(id))}
			},
		} {
			s.order(c, name, chain)
		}
	})
}

// A watch sees the change that was sent behind it.
func TestOrderOfWatch(t *testing.T) {
	each(t, func(w *world) {
		c := w.serve(nil).raw()
		const watches = 40
		var batch [][]byte
		want := make(map[string]bool)
		for i := range watches {
			dir, id := filepath.Join(w.dir, fmt.Sprint(i)), fmt.Sprint("w", i)
			for _, sub := range []string{"", "a", "a/b"} {
				w.mkdir(filepath.Join(dir, sub))
			}
			want[id] = true
			for _, r := range []request{
				to("fs/watch", "path", fileuri.Format(dir), "watchId", id),
				to("fs/writeFile", "path", fileuri.Format(filepath.Join(dir, "a/b/f")), "dataBase64", []byte("x")),
			} {
				_, msg, err := c.Encode(r.method, r.params)
				if err != nil {
					t.Fatal(err)
				}
				batch = append(batch, msg)
			}
		}
		for _, msg := range batch {
			if err := c.Send(msg); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Conn().SetReadDeadline(time.Now().Add(sigpipeTimeout)); err != nil {
			t.Fatal(err)
		}
		err := c.ReadUntil(func(m raw.Message) bool {
			for id := range want {
				if m.Method == "fs/changed" && strings.Contains(string(m.Raw), fmt.Sprintf("%q", id)) && strings.Contains(string(m.Raw), "a/b/f") {
					delete(want, id)
				}
			}
			return len(want) == 0
		})
		if err != nil {
			t.Errorf("%d of %d watches saw nothing: %v", len(want), watches, err)
		}
	})
}

// Input that tells a program to look at a file comes behind the file.
func TestOrderOfInput(t *testing.T) {
	each(t, func(w *world) {
		s := w.serve(nil)
		c := s.raw()
		err := c.Call("process/start", map[string]any{
			"processId": "sh", "argv": []string{"sh"}, "cwd": fileuri.Format(w.dir), "env": map[string]string{"PATH": os.Getenv("PATH")},
			"tty": false, "arg0": nil, "pipeStdin": true,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const files = 40
		for i := range files {
			f := filepath.Join(w.dir, fmt.Sprint(i))
			if _, err := c.Request("fs/writeFile", map[string]any{"path": fileuri.Format(f), "dataBase64": []byte("line\n")}); err != nil {
				t.Fatal(err)
			}
			line := fmt.Appendf(nil, "cat %d || echo none\n", i)
			if _, err := c.Request("process/write", map[string]any{"processId": "sh", "chunk": line}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Request("process/closeStdin", map[string]any{"processId": "sh"}); err != nil {
			t.Fatal(err)
		}
		var output strings.Builder
		err = c.ReadUntil(func(m raw.Message) bool {
			var p struct {
				Params struct {
					Stream string `json:"stream"`
					Chunk  []byte `json:"chunk"`
				} `json:"params"`
			}
			if m.Method == "process/output" && json.Unmarshal(m.Raw, &p) == nil && p.Params.Stream == "stdout" {
				output.Write(p.Params.Chunk)
			}
			return m.Method == "process/closed"
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(output.String(), "line\n"); got != files {
			t.Errorf("%d of %d files were there: %q", got, files, output.String())
		}
	})
}
