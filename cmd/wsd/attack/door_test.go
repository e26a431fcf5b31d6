//go:build attack && linux

package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// as runs wsd exec as another user against the server and returns what it printed.
func (s *server) as(uid int, env ...string) (string, error) {
	cmd := s.w.command("exec", "--connect", s.URL, "--", "id", "-u")
	cmd.SysProcAttr, cmd.Dir = credential(uid), "/"
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestSM7OnlyOneUser(t *testing.T) {
	each(t, func(w *world) {
		token := filepath.Join(w.home, "token")
		w.write(token, "0123456789abcdef0123456789abcdef", 0o600)
		uids := []int{w.uid}
		if os.Geteuid() == 0 {
			uids = []int{0, w.uid, stranger}
		}
		for _, tt := range []struct {
			args []string
			env  string
			open bool
		}{
			{nil, "", false},
			{[]string{"--workspace", w.dir, "--store", filepath.Join(w.home, "s.db")}, "", false},
			{[]string{"--any-local-user"}, "", true},
			{[]string{"--ws-auth", "capability-token", "--ws-token-file", token}, "WSD_TOKEN=0123456789abcdef0123456789abcdef", true},
		} {
			s := w.serve(nil, tt.args...)
			for _, uid := range uids {
				out, err := s.as(uid, tt.env)
				switch {
				case tt.open || uid != stranger:
					if err != nil || out != fmt.Sprintln(w.uid) {
						t.Errorf("%q: user %d does not get in: %v: %s", tt.args, uid, err, out)
					}
				case err == nil || !strings.Contains(out, "token") || !strings.Contains(out, "--any-local-user"):
					t.Errorf("%q: user %d: %v: %s", tt.args, uid, err, out)
				}
			}
			if err := s.Stop(); err != nil {
				t.Errorf("%q: %v", tt.args, err)
			}
		}
	})
}

// get is GET of a page with another Host.
func (s *server) get(path, host string) (int, string) {
	s.w.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+s.Addr+path, nil)
	if err != nil {
		s.w.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.w.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestSL3HostIsChecked(t *testing.T) {
	each(t, func(w *world) {
		pages := []string{"/health", "/healthz", "/readyz", "/metrics", "/api/watermarks", "/__computerd/info"}
		for _, named := range []bool{false, true} {
			args := []string{"--metrics", "--workspace", w.dir, "--store", filepath.Join(w.home, "s.db")}
			if named {
				args = append(args, "--allowed-host", "good.example")
			}
			s := w.serve(nil, args...)
			_, port, _ := strings.Cut(s.Addr, ":")
			for _, page := range append(pages, "/", "/none") {
				for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example", "127.0.0.1.evil.example:" + port} {
					if status, body := s.get(page, host); status != http.StatusForbidden || strings.Contains(body, "{") {
						t.Errorf("%s as %s: %d %s", page, host, status, body)
					}
				}
			}
			good := []string{"127.0.0.1", s.Addr, "[::1]:" + port, "localhost", "LOCALHOST:" + port, "10.1.2.3"}
			if named {
				good = append(good, "good.example", "Good.Example:"+port)
			}
			for _, page := range pages {
				for _, host := range good {
					if status, body := s.get(page, host); status != http.StatusOK {
						t.Errorf("%s as %s: %d %s", page, host, status, body)
					}
				}
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
}
