package sandbox

import (
	"encoding/json"
	"os"
	"testing"
)

func TestSmoke(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "f", "secret/k", "sub/.git/config")
	for _, force := range []string{"user", "root", "landlock"} {
		b := &box{t: t, e: enforcer(t, Config{force: force}), dir: dir, sandbox: inRoot(policy(at("root", "read")), dir)}
		out, code := b.sh("echo hi > x; cat f; id; cat /proc/self/mountinfo; ls -la /dev; grep -i -E 'cap|nonew|seccomp' /proc/self/status; ls -la /proc/self/ns; env; ls -la /proc/self/fd")
		t.Log(force, code, out)
	}
	b := &box{t: t, e: enforcer(t, Config{}), dir: dir, sandbox: inRoot(policy(at("root", "read"), at("project_roots", "write"), entry(dir+"/secret", "deny")), dir)}
	out, code := b.sh("echo hi > x; cat secret/k; ls -la . .git; mkdir .git; cat /proc/self/mountinfo|grep wsd")
	t.Log(code, out)
	b.sandbox = policy(at("minimal", "read"), entry(dir, "write"))
	out, code = b.sh("ls -la / /work; pwd; echo hi > x; ls -la .; cat /proc/self/mountinfo")
	t.Log(code, out)
	r := Probe()
	j, _ := json.MarshalIndent(r, "", " ")
	t.Log(string(j))
	_ = os.Stdout
}
