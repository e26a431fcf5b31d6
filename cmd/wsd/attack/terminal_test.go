//go:build attack && linux

package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/gorilla/websocket"
)

// evil is a text that sets a terminal's title, turns text around and forges a line.
const evil = "e\x1b]0;T\a\u009b\u202en\nconflict: forged\r"

// harmless fails the test if a text controls a terminal or has a line that is forged.
func harmless(w *world, what, text string) {
	w.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "conflict: forged") {
			w.Errorf("%s: forged: %q", what, text)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }) {
			w.Errorf("%s: %q", what, text)
		}
	}
}

// liar is in front of a server, and gives each answer that test names as an error with an
// evil text.
func liar(w *world, s *server, lies func(method string) bool) string {
	handler := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		near, err := (&websocket.Upgrader{}).Upgrade(rw, req, nil)
		if err != nil {
			w.Error(err)
			return
		}
		defer near.Close()
		far, _, err := websocket.DefaultDialer.DialContext(req.Context(), s.URL, nil) //nolint:bodyclose // the body of an upgrade is the connection
		if err != nil {
			w.Error(err)
			return
		}
		defer far.Close()
		written := make(chan []byte)
		done := make(chan struct{})
		defer close(done)
		forward := func(kind int, msg []byte) bool {
			select {
			case written <- append([]byte{byte(kind)}, msg...):
				return true
			case <-done:
				return false
			}
		}
		go func() { // ends with far
			for {
				kind, msg, err := far.ReadMessage()
				if err != nil || !forward(kind, msg) {
					_ = near.Close()
					return
				}
			}
		}()
		go func() { // ends with near
			for m := range written {
				if near.WriteMessage(int(m[0]), m[1:]) != nil {
					return
				}
			}
		}()
		for {
			kind, msg, err := near.ReadMessage()
			if err != nil {
				return
			}
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal(msg, &m) == nil && len(m.ID) > 0 && lies(m.Method) {
				text, _ := json.Marshal(evil)
				if !forward(kind, fmt.Appendf(nil, `{"id":%s,"error":{"code":-32603,"message":%s}}`, m.ID, text)) {
					return
				}
				continue
			}
			if far.WriteMessage(kind, msg) != nil {
				return
			}
		}
	})
	proxy := httptest.NewServer(handler)
	w.Cleanup(proxy.Close)
	return "ws" + strings.TrimPrefix(proxy.URL, "http")
}

// Names of files are the other side's, wherever they are printed.
func TestSL1Names(t *testing.T) {
	each(t, func(w *world) {
		there := filepath.Join(w.dir, "there")
		w.mkdir(there)
		w.mkdir(filepath.Join(w.dir, "here"))
		s := w.serve([]string{"XDG_STATE_HOME=" + filepath.Join(w.home, "server")}, "--workspace", there)
		w.write(filepath.Join(there, evil), "needle\n", 0o644)
		w.link(evil, filepath.Join(there, "l"+evil))
		w.write(filepath.Join(there, ".vscode", evil), "", 0o644)
		run := func(args ...string) {
			w.Helper()
			harmless(w, strings.Join(args, " "), s.cli(args...).text())
		}
		run("ls", "there")
		run("ls", "-l", "there")
		run("glob", "-C", "there", "*")
		run("grep", "needle", "there")
		run("cat", "there/"+evil+"x")
		run("sync", "--dry-run", "here", s.URL)
		run("sync", "-v", "here", s.URL)
		w.write(filepath.Join(w.dir, "here", evil), "mine", 0o644)
		w.write(filepath.Join(there, evil), "theirs", 0o644)
		run("sync", "--on-conflict", "both", "here", s.URL)
		if r := s.sh(s.dial(nil), nil, "mkfifo 'there/f"+evil+"'"); r.code != 0 {
			w.Fatalf("%+v", r)
		}
		run("cp", "-r", ":there", "copy")
		// Programs get what there is.
		if r := s.cli("ls", "--json", "there"); !strings.Contains(r.stdout, `e\u001b]0;T\u0007`) || !strings.Contains(r.stdout, `\nconflict: forged\r"`) {
			w.Errorf("ls --json: %q", r.stdout)
		}
	})
}

// Errors are the other side's in every command.
func TestSL1Errors(t *testing.T) {
	each(t, func(w *world) {
		there := filepath.Join(w.dir, "there")
		w.mkdir(there)
		w.mkdir(filepath.Join(w.dir, "here"))
		w.write(filepath.Join(there, "f"), "", 0o644)
		s := w.serve([]string{"XDG_STATE_HOME=" + filepath.Join(w.home, "server")}, "--workspace", there)
		url := liar(w, s, func(method string) bool { return method != "initialize" && method != "environment/info" })
		for _, args := range [][]string{
			{"cat", "f"},
			{"ls", "f"},
			{"ls", "-l", "there"},
			{"exec", "--", "true"},
			{"exec", "--detach", "--", "true"},
			{"exec", "--sync", "--dir", "here", "--", "true"},
			{"cp", ":there", "copy"},
			{"cp", "here", ":copy"},
			{"glob", "*"},
			{"grep", "x", "there"},
			{"ps"},
			{"kill", "x"},
			{"log", "x"},
			{"watch", "--once", "there"},
			{"gc"},
			{"sync", "here"},
			{"doctor"},
		} {
			r := s.cli(append(args, "--connect", url)...)
			if args[0] == "exec" {
				r = s.cli(append([]string{"exec", "--connect", url}, args[1:]...)...)
			}
			if r.code == 0 || !strings.Contains(r.text(), "]0;T") {
				w.Errorf("%v does not print the error: %+v", args, r)
			}
			harmless(w, strings.Join(args, " "), strings.ReplaceAll(r.text(), "\t", " "))
		}
	})
}
