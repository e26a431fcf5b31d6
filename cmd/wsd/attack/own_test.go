//go:build attack && linux

package attack

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// networked is s with the network of the host.
func networked(s *protocol.Sandbox) *protocol.Sandbox {
	s.Permissions.Network = protocol.NetworkEnabled
	return s
}

// policies are those under which nothing of the server may be had.
func (w *world) policies() map[string]*protocol.Sandbox {
	return map[string]*protocol.Sandbox{
		"root read": w.ro(), "root write": w.policy(root(protocol.AccessWrite)), "writable": w.ww(w.dir), "home writable": w.ww(w.home),
		"home alone": networked(w.policy(entry{Path: protocol.PermissionPath{Type: "special", Value: &protocol.SpecialPath{Kind: "minimal"}}, Access: protocol.AccessRead},
			at(w.home, protocol.AccessRead), at(w.dir, protocol.AccessRead))),
	}
}

// handles numbers the handles of fs/open, whose names must be short.
var handles atomic.Int64

// readBlocks is fs/open and fs/readBlock of the first bytes of path.
func readBlocks(c *raw.Client, path string, sandbox *protocol.Sandbox) (string, error) {
	handle := fmt.Sprint(handles.Add(1))
	err := c.Call("fs/open", map[string]any{"handleId": handle, "path": fileuri.Format(path), "sandbox": sandbox}, nil)
	if err != nil {
		return "", err
	}
	var block struct {
		Chunk string `json:"chunk"`
	}
	err = c.Call("fs/readBlock", map[string]any{"handleId": handle, "offset": 0, "len": 64 << 10}, &block)
	if err != nil {
		return "", err
	}
	if err := c.Call("fs/close", map[string]any{"handleId": handle}, nil); err != nil {
		return "", err
	}
	data, err := base64.StdEncoding.DecodeString(block.Chunk)
	return string(data), err
}

// fileTries are ways to have the content of path by fs/*. Each returns what it got.
func (w *world) fileTries(c *raw.Client, path string, sandbox *protocol.Sandbox) map[string]string {
	got := make(map[string]string)
	got["fs/readFile"], _ = readFile(c, path, sandbox)
	got["fs/open"], _ = readBlocks(c, path, sandbox)
	var found any
	if c.Call("fs/grep", map[string]any{"path": fileuri.Format(path), "pattern": ".*", "sandbox": sandbox}, &found) == nil {
		got["fs/grep"] = fmt.Sprint(found)
	}
	into := filepath.Join(w.dir, "copied")
	if c.Call("fs/copy", map[string]any{"sourcePath": fileuri.Format(path), "destinationPath": fileuri.Format(into), "recursive": false, "sandbox": sandbox}, nil) == nil {
		data, _ := os.ReadFile(into)
		got["fs/copy"] = string(data)
	}
	_ = os.Remove(into)
	return got
}

// fs/* with a sandbox reads neither the environment nor the memory of the server.
func TestSH4NothingOfTheServersProcess(t *testing.T) {
	each(t, func(w *world) {
		key := secret()
		s := w.serve([]string{"CODEX_API_KEY=" + key})
		c := s.raw()
		pid := strconv.Itoa(s.PID)
		if w.uid == 0 { // what a confined command of root has no right to, root's server does not read for it
			others := secret()
			w.write(filepath.Join(w.dir, "others"), others, 0o600)
			if err := os.Chown(filepath.Join(w.dir, "others"), stranger, stranger); err != nil {
				w.Fatal(err)
			}
			for how, got := range w.fileTries(c, filepath.Join(w.dir, "others"), w.ro()) {
				hidden(w, how+" of another user's file", got, others)
			}
		}
		w.write(filepath.Join(w.dir, "kept"), "", 0o600)
		links := map[string]string{"self": "/proc/self", "environ": "/proc/self/environ", "fd": "/dev/fd"}
		for name, to := range links {
			if err := os.Symlink(to, filepath.Join(w.dir, name)); err != nil {
				w.Fatal(err)
			}
		}
		for name, box := range w.policies() {
			for _, path := range []string{
				"/proc/self/environ", "/proc/thread-self/environ", "/proc/" + pid + "/environ", "/proc/" + pid + "/task/" + pid + "/environ",
				"/proc/self/root/proc/" + pid + "/environ", filepath.Join(w.dir, "self/environ"), filepath.Join(w.dir, "environ"),
				filepath.Join(w.dir, "fd/../environ"), "/proc/self/task/../environ",
			} {
				for how, got := range w.fileTries(c, path, box) {
					hidden(w, name+": "+how+" of "+path, got, key)
				}
			}
			for _, path := range []string{"/proc/self/stat", "/proc/thread-self/stat", filepath.Join(w.dir, "self/stat")} {
				got, err := readFile(c, path, box)
				if err == nil && strings.HasPrefix(got, pid+" ") {
					w.Errorf("%s: %s is the server's", name, path)
				}
			}
			// /proc/self/mem is the helper's, which has nothing that the client has not.
			mem := "/proc/" + pid + "/mem"
			if err := c.Call("fs/open", map[string]any{"handleId": name, "path": fileuri.Format(mem), "sandbox": box}, nil); err == nil {
				w.Errorf("%s: %s was opened", name, mem)
			}
		}
	})
}

// A sandbox with the network is not left through a server that asks for a token.
func TestSH5TokenIsOutOfReach(t *testing.T) {
	each(t, func(w *world) {
		token := secret()
		file := filepath.Join(w.home, "elsewhere", "T")
		w.write(file, token, 0o600)
		guarded := w.serve(nil, "--ws-auth", "capability-token", "--ws-token-file", file)
		guarded.dial(&client.Options{BearerToken: token}) // the token is the right one
		open := w.serve(nil)                              // whose sandboxes must know the other's files
		c, rc := open.dial(nil), open.raw()
		outside := filepath.Join(w.home, "outside")
		for name, box := range w.policies() {
			networked(box)
			r := open.sh(c, box, program+" exec -- sh -c 'id >"+outside+"'; "+program+" exec --token-file "+file+" --connect "+guarded.URL+" -- id; cat "+file+" "+w.home+"/wsd/*.json; ls "+w.home+"/wsd")
			hidden(w, name, r.text(), token)
			hidden(w, name, r.stdout, guarded.URL)
			if _, err := os.Lstat(outside); err == nil && name == "root read" {
				w.Errorf("%s: a command wrote outside: %s", name, r.text())
			}
			_ = os.Remove(outside)
			for how, got := range w.fileTries(rc, file, box) {
				hidden(w, name+": "+how, got, token)
			}
		}
	})
}

// The Unix socket of a server, and that of another, cannot be connected to from a
// sandbox with the network.
func TestSH5UnixSocketIsOutOfReach(t *testing.T) {
	each(t, func(w *world) {
		socket := filepath.Join(w.dir, "s.sock")
		w.serve(nil, "--listen", "unix://"+socket)
		s := w.serve(nil)
		c := s.dial(nil)
		for name, box := range w.policies() {
			r := s.sh(c, networked(box), program+" exec --connect unix://"+socket+" -- echo through; rm -f "+socket+"; mv "+socket+" x")
			hidden(w, name, r.stdout, "through")
			if _, err := os.Lstat(socket); err != nil {
				w.Fatalf("%s: the socket is gone: %v", name, err)
			}
		}
	})
}

// The store of a workspace, where it is by default and where a flag puts it, has what
// is denied: it is denied itself. Nobody can lock it either (S-M5).
func TestSH6StoreIsOutOfReach(t *testing.T) {
	each(t, func(w *world) {
		text := secret()
		w.write(filepath.Join(w.dir, ".env"), text, 0o600)
		// An object has the content of a lost version. Only its directory keeps other users from it.
		object := secret()
		for _, store := range []string{"", filepath.Join(w.home, "elsewhere", "s.db")} {
			args := []string{"--workspace", w.dir}
			if store != "" {
				args = append(args, "--store", store)
			}
			s := w.serve(nil, args...)
			c, rc := s.dial(nil), s.raw()
			if store == "" {
				found, err := filepath.Glob(filepath.Join(w.home, "state", "wsd", "workspaces", "*.db"))
				if err != nil || len(found) != 1 {
					w.Fatal(found, err)
				}
				store = found[0]
			}
			w.write(filepath.Join(store+".objects", "0000000000000001"), object, 0o644)
			for name, box := range w.policies() {
				box.Permissions.FileSystem.Entries = append(box.Permissions.FileSystem.Entries, glob(w.dir+"/**/.env"))
				r := s.sh(c, box, "grep -aho 'TOPSECRET[^ ]*' -r "+w.home+"; for f in "+store+"*; do exec 3<$f && echo opened $f; done")
				hidden(w, name, r.text(), text)
				hidden(w, name, r.text(), object)
				for how, got := range w.fileTries(rc, store+".objects/0000000000000001", box) {
					hidden(w, name+": "+how, got, object)
				}
				for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
					if r := s.sh(c, box, "exec 3<"+store+suffix+" && echo opened"); strings.Contains(r.stdout, "opened") {
						w.Errorf("S-M5: %s: %s can be opened, and so locked", name, store+suffix)
					}
					for how, got := range w.fileTries(rc, store+suffix, box) {
						if strings.Contains(got, text) || suffix == "" && strings.Contains(got, "SQLite") {
							w.Errorf("%s: %s gives %s", name, how, store+suffix)
						}
					}
				}
			}
			if err := s.Stop(); err != nil {
				w.Error(err)
			}
		}
	})
}

// A command cannot lock the store, which would stall all that the workspace does.
func TestSM5StoreCannotBeLocked(t *testing.T) {
	each(t, func(w *world) {
		here, there := filepath.Join(w.dir, "here"), filepath.Join(w.dir, "there")
		w.mkdir(there)
		s := w.serve(nil, "--workspace", there)
		c := s.dial(nil)
		stores, err := filepath.Glob(filepath.Join(w.home, "state", "wsd", "workspaces", "*.db"))
		if err != nil || len(stores) != 1 {
			w.Fatal(stores, err)
		}
		for name, box := range w.policies() {
			box.Permissions.FileSystem.Entries = append(box.Permissions.FileSystem.Entries, at(filepath.Dir(tool), protocol.AccessRead))
			p, err := c.Start(w.Context(), client.Command{
				Argv: []string{tool, toolWord, "lock " + stores[0] + "-shm", "lock " + stores[0]}, Dir: w.dir, Sandbox: box, Stdin: true,
			})
			if err != nil {
				w.Fatal(err)
			}
			answers := bufio.NewReader(p.Stdout)
			first, err := answers.ReadString('\n')
			if err != nil || first == "locked\n" {
				w.Errorf("%s: %q, %v", name, first, err)
			}
			w.write(filepath.Join(here, "f"), name, 0o644) // while the command runs
			if r := s.cli("sync", here, s.URL); r.code != 0 {
				w.Errorf("%s: the workspace is stalled: %+v", name, r)
			}
			w.is(filepath.Join(there, "f"), name)
			if err := p.Stdin.Close(); err != nil {
				w.Error(err)
			}
			if _, err := io.Copy(io.Discard, answers); err != nil {
				w.Error(err)
			}
			if _, err := p.Wait(w.Context()); err != nil {
				w.Error(err)
			}
		}
	})
}

// Rules of the policy for what is private do not open it, by whatever name.
func TestSH5RulesDoNotOpenWhatIsPrivate(t *testing.T) {
	each(t, func(w *world) {
		token := secret()
		file := filepath.Join(w.home, "state", "wsd", "mine", "T")
		w.write(file, token, 0o600)
		w.mkdir(filepath.Join(w.home, "state"))
		if os.Geteuid() == 0 {
			for _, dir := range []string{"state", "state/wsd", "state/wsd/mine"} {
				if err := os.Chown(filepath.Join(w.home, dir), w.uid, w.uid); err != nil {
					w.Fatal(err)
				}
			}
		}
		link := filepath.Join(w.home, "link")
		if err := os.Symlink(filepath.Join(w.home, "state", "wsd"), link); err != nil {
			w.Fatal(err)
		}
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		for _, path := range []string{file, filepath.Dir(file), filepath.Join(link, "mine"), filepath.Join(link, "mine", "T")} {
			for _, access := range []string{protocol.AccessRead, protocol.AccessWrite} {
				for _, base := range [][]entry{{root(protocol.AccessRead)}, {at("/usr", protocol.AccessRead), at("/bin", protocol.AccessRead), at("/lib", protocol.AccessRead), at("/lib64", protocol.AccessRead), at(w.dir, protocol.AccessRead)}} {
					box := w.policy(append(base, at(path, access))...)
					r, err := s.run(c, box, "sh", "-c", "cat "+file+" "+path+"/T "+path)
					if err == nil {
						hidden(w, path+" "+access, r.text(), token)
					}
					for how, got := range w.fileTries(rc, file, box) {
						hidden(w, path+" "+access+" "+how, got, token)
					}
				}
			}
		}
	})
}

// Each file that a wsd of the user makes, or is given for its secrets, is tried from a
// sandbox of another: all that stands in the home directory is of them.
func TestSH5EveryFileOfEveryProgram(t *testing.T) {
	each(t, func(w *world) {
		named := filepath.Join(w.home, "named")
		w.mkdir(named)
		file := func(name string) string { return filepath.Join(named, name) }
		relay, err := target.Start(w.Context(), target.Config{
			Kind: target.Relay, Path: program, Dir: w.dir, Home: w.home, Attributes: credential(w.uid),
			Args: []string{"--state", "sqlite:" + file("relay.db"), "--audit-log", file("audit.jsonl")},
		})
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = relay.Stop() })
		for _, role := range []string{"executor", "harness"} {
			out, err := w.command("relay", "token", "create", "--state", "sqlite:"+file("relay.db"), "--role", role, "--environment", "lab").Output()
			if err != nil {
				w.Fatal(err)
			}
			w.write(file(role+".token"), strings.TrimSpace(string(out)), 0o600)
		}
		w.write(file("authorized_keys"), "# nobody\n", 0o600)
		w.write(file("T"), secret(), 0o600)
		w.serve(nil, "--remote", relay.URL, "--environment-id", "lab", "--token-file", file("executor.token"), "--identity", file("identity.json"),
			"--authorized-keys", file("authorized_keys"), "--workspace", w.dir, "--store", file("s.db"), "--ws-auth", "capability-token", "--ws-token-file", file("T"))
		// It is refused, but has keys of its own and knows the executor's from now on.
		_ = w.command("exec", "--connect", "relay+"+relay.URL+"/lab", "--token-file", file("harness.token"), "--connect-timeout", "2s", "--", "true").Run()
		if err := os.Remove(file("harness.token")); err != nil { // of a client that has ended
			w.Fatal(err)
		}
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		var files []string
		err = filepath.WalkDir(w.home, func(path string, d iofs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			w.Fatal(err)
		}
		for _, want := range []string{"named/relay.db", "named/relay.db-wal", "named/audit.jsonl", "named/identity.json", "named/s.db", "named/s.db-shm", "named/s.db.lock", "named/s.db.reserve", ".config/wsd/client.json", "wsd/" + strconv.Itoa(s.PID) + ".json"} {
			if !strings.Contains(strings.Join(files, "\n")+"\n", filepath.Join(w.home, want)+"\n") {
				w.Errorf("%s is not among the files of the user's programs: %s", want, files)
			}
		}
		for name, box := range w.policies() {
			var script strings.Builder
			for _, path := range files {
				fmt.Fprintf(&script, "head -c 1 '%s' >/dev/null && echo 'read %s'; ", path, path)
			}
			if r := s.sh(c, box, script.String()); strings.Contains(r.stdout, "read ") {
				w.Errorf("%s: a command: %s", name, r.stdout)
			}
			for _, path := range files {
				if got, err := readFile(rc, path, box); err == nil {
					w.Errorf("%s: fs/readFile of %s gives %d bytes", name, path, len(got))
				}
			}
		}
	})
}

// An executor that serves its parent as well has its files kept from the sandboxes of
// others, and its output is its parent's.
func TestSH5FilesOfAnExecutorOnStdio(t *testing.T) {
	each(t, func(w *world) {
		relay := w.relay(1024)
		token := func(role string) (token, file string) {
			out, err := w.command("relay", "token", "create", "--role", role, "--environment", "lab").Output()
			if err != nil {
				w.Fatal(err)
			}
			token, file = strings.TrimSpace(string(out)), filepath.Join(w.home, "elsewhere", role)
			w.write(file, token, 0o600)
			return token, file
		}
		kept, file := token("executor")
		_, harness := token("harness")
		cmd := w.command("serve", "--remote", relay.URL, "--environment-id", "lab", "--token-file", file, "--listen", "stdio")
		in, err := cmd.StdinPipe()
		if err != nil {
			w.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
		answers := bufio.NewReader(out)
		ask := func(id int) {
			if _, err := fmt.Fprintf(in, `{"id":%d,"method":"initialize","params":{"clientName":"parent"}}`+"\n", id); err != nil {
				w.Fatal(err)
			}
			if line, err := answers.ReadString('\n'); err != nil || line[0] != '{' || !strings.Contains(line, fmt.Sprintf(`"id":%d`, id)) {
				w.Errorf("answer %d: %q, %v", id, line, err)
			}
		}
		ask(1)
		said, err := w.command("exec", "--connect", "relay+"+relay.URL+"/lab", "--token-file", harness, "--connect-timeout", "30s", "--", "true").CombinedOutput()
		if err != nil {
			w.Errorf("over the relay: %v: %s", err, said)
		}
		ask(2)
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		for name, box := range w.policies() {
			hidden(w, name, s.sh(c, box, "cat "+file).text(), kept)
			for how, got := range w.fileTries(rc, file, box) {
				hidden(w, name+": "+how, got, kept)
			}
		}
	})
}

// A store is not made where a link to nothing leads, and its lock truncates no other file.
func TestSL7StoreFollowsNoPlantedLink(t *testing.T) {
	each(t, func(w *world) {
		other := filepath.Join(w.home, "other")
		w.mkdir(other)
		link := func(to, at string) {
			if err := os.Symlink(to, at); err != nil {
				w.Fatal(err)
			}
		}
		serve := func(store string) string {
			cmd := w.command("serve", "--listen", "ws://127.0.0.1:0", "--exit-on-stdin-close", "--workspace", w.dir, "--store", store)
			out, err := cmd.CombinedOutput() // its input ends at once
			if err == nil {
				w.Errorf("served with the store %s", store)
			}
			return string(out)
		}
		link(filepath.Join(w.dir, "real.db"), filepath.Join(other, "s.db"))
		if out := serve(filepath.Join(other, "s.db")); !strings.Contains(out, "link") {
			w.Errorf("the refusal: %s", out)
		}
		if made, err := filepath.Glob(filepath.Join(w.dir, "real.db*")); err != nil || len(made) > 0 {
			w.Errorf("made %v, %v", made, err)
		}
		text := secret()
		w.write(filepath.Join(w.home, "precious"), text, 0o600)
		link(filepath.Join(w.home, "precious"), filepath.Join(other, "t.db.lock"))
		if out := serve(filepath.Join(other, "t.db")); !strings.Contains(out, "link") {
			w.Errorf("the refusal: %s", out)
		}
		if got, err := os.ReadFile(filepath.Join(w.home, "precious")); err != nil || string(got) != text {
			w.Errorf("the lock overwrote another file: %q, %v", got, err)
		}
	})
}

// Tokens that the server was given in variables are in no place where the system shows
// its environment, and no request sends them anywhere.
func TestSL8SecretsOfTheEnvironment(t *testing.T) {
	each(t, func(w *world) {
		token, key, shared := secret(), secret(), secret()
		s := w.serve([]string{"WSD_TOKEN=" + token, "WSD_API_KEY=" + key, "RPC_CLIENT_SECRET=" + shared, "PLAIN=plain"})
		for _, name := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.PID), name))
			if err != nil {
				w.Fatal(err)
			}
			for _, value := range []string{token, key, shared} {
				hidden(w, "/proc/PID/"+name, string(text), value)
			}
		}
		got := make(chan http.Header, 16)
		web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
		defer web.Close()
		c, rc := s.dial(nil), s.raw()
		ask := func(variable string) error {
			return rc.Call("http/request", map[string]any{
				"requestId": variable, "method": "GET", "url": web.URL,
				"headers": []any{map[string]any{"name": "x-sent", "value": "", "valueEnvVar": variable}},
			}, nil)
		}
		for _, variable := range []string{"WSD_TOKEN", "WSD_API_KEY", "RPC_CLIENT_SECRET"} {
			if err := ask(variable); err == nil {
				w.Errorf("http/request sends %s: %v", variable, <-got)
			}
		}
		if err := ask("PLAIN"); err != nil || (<-got).Get("X-Sent") != "plain" {
			w.Errorf("http/request of another variable: %v", err)
		}
		r := s.sh(c, nil, "env; tr '\\0' '\\n' </proc/"+strconv.Itoa(s.PID)+"/environ")
		for _, value := range []string{token, key, shared} {
			hidden(w, "a command", r.text(), value)
		}
	})
}

// A token file that others may write is refused, and a weak one is warned of.
func TestSL10WeakTokenFile(t *testing.T) {
	each(t, func(w *world) {
		file := filepath.Join(w.home, "T")
		w.write(file, "x", 0o666)
		out, err := w.command("serve", "--listen", "ws://127.0.0.1:0", "--exit-on-stdin-close", "--ws-auth", "capability-token", "--ws-token-file", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "chmod go-w") {
			w.Errorf("mode 0666: %v, %s", err, out)
		}
		w.write(file, "x", 0o644)
		s := w.serve(nil, "--ws-auth", "capability-token", "--ws-token-file", file)
		_ = s.Stop()
		if text := s.log.String(); !strings.Contains(text, "chmod 600") || !strings.Contains(text, "may be guessed") {
			w.Errorf("nothing is said of a token of one character that all may read:\n%s", text)
		}
	})
}

// A server that starts later with files of its own is kept from the fs/* of a client
// whose helper runs already.
func TestSH5FilesOfALaterServer(t *testing.T) {
	each(t, func(w *world) {
		token := secret()
		file := filepath.Join(w.home, "elsewhere", "T")
		w.write(file, token, 0o600)
		s := w.serve(nil)
		c := s.raw()
		for name, box := range w.policies() {
			// A watch keeps the helper.
			if err := c.Call("fs/watch", map[string]any{"watchId": name, "path": fileuri.Format(w.dir), "recursive": false, "sandbox": box}, nil); err != nil {
				w.Fatal(err)
			}
		}
		w.serve(nil, "--ws-auth", "capability-token", "--ws-token-file", file)
		for name, box := range w.policies() {
			for how, got := range w.fileTries(c, file, box) {
				hidden(w, name+": "+how, got, token)
			}
		}
	})
}

// Moving aside a directory above a file that is private does not uncover it for the
// next command, nor does taking the rights of that directory away.
func TestSH5MovedDirectories(t *testing.T) {
	each(t, func(w *world) {
		token := secret()
		file := filepath.Join(w.home, "a", "b", "T")
		for _, dir := range []string{"a", "a/b"} {
			w.mkdir(filepath.Join(w.home, dir))
		}
		w.write(file, token, 0o600)
		w.serve(nil, "--ws-auth", "capability-token", "--ws-token-file", file)
		s := w.serve(nil)
		c, rc := s.dial(nil), s.raw()
		for name, box := range map[string]*protocol.Sandbox{"home writable": w.ww(w.home), "root write": w.policy(root(protocol.AccessWrite))} {
			steps := []string{"mv a a2; mv a/b b2; ln a/b/T l; mv state s2", "chmod 000 a", "chmod 1555 a a/b"}
			if !testing.Short() {
				steps = append(steps, "mv a a2", "mv a/b a/c", "mv a/b b2", "ln a/b/T l", "mv .config c2; mv wsd w2")
			}
			for _, first := range steps {
				if _, err := s.run(c, box, "sh", "-c", "cd "+w.home+"; "+first); err != nil {
					w.Fatal(err)
				}
				r, err := s.run(c, box, "sh", "-c", "cd "+w.home+"; chmod 700 a a/b; cat a/b/T a2/b/T a/c/T b2/T l; grep -rh TOPSECRET . ")
				if err != nil {
					w.Logf("%s after %s: refused: %v", name, first, err)
				}
				hidden(w, name+" after "+first, r.text(), token)
				for how, got := range w.fileTries(rc, file, box) {
					hidden(w, name+" after "+first+": "+how, got, token)
				}
				if _, err := os.Lstat(file); err != nil {
					w.Fatalf("%s after %s: %v", name, first, err)
				}
			}
		}
	})
}
