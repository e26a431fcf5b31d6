package natsstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want Config
	}{
		{"nats://h", Config{Servers: []string{"h:4222"}}},
		{"nats://h:1/", Config{Servers: []string{"h:1"}}},
		{"nats://user:pass@h1:4222,h2:4223,h3", Config{Servers: []string{"h1:4222", "h2:4223", "h3:4222"}, User: "user", Password: "pass"}},
		{"nats://user:a%40b%25@h", Config{Servers: []string{"h:4222"}, User: "user", Password: "a@b%"}},
		{"nats://user:a@b@h", Config{Servers: []string{"h:4222"}, User: "user", Password: "a@b"}},
		{"nats://user:a+b@h", Config{Servers: []string{"h:4222"}, User: "user", Password: "a+b"}},
		{"nats://token@h", Config{Servers: []string{"h:4222"}, Token: "token"}},
		{"tls://[::1]:7,[fe80::1]", Config{Servers: []string{"[::1]:7", "[fe80::1]:4222"}, TLS: true}},
		{"nats://h?bucket=b&replicas=5&creds=/c&ca=/ca", Config{Servers: []string{"h:4222"}, Bucket: "b", Replicas: 5, CredentialsFile: "/c", CAFile: "/ca"}},
		{"nats://h?user=u&password_file=/p", Config{Servers: []string{"h:4222"}, User: "u", PasswordFile: "/p"}},
		{"nats://h?nkey=/n&cert=/c&key=/k", Config{Servers: []string{"h:4222"}, NKeyFile: "/n", CertFile: "/c", KeyFile: "/k"}},
	} {
		got, err := ParseURL(tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
		} else if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.url, diff)
		}
		if !IsURL(tt.url) {
			t.Errorf("%s is not taken for ours", tt.url)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, tt := range []struct{ url, says string }{
		{"http://h", `begins with "nats://"`},
		{"nats:h", `begins with "nats://"`},
		{"nats://", "names a host"},
		{"nats://h1,,h2", "names a host"},
		{"nats://h1:4222,nats://h2:4222", "nats://h1:4222,h2:4222"},
		{"nats://h:0", "host and port"},
		{"nats://h:65536", "host and port"},
		{"nats://h:x", "host and port"},
		{"nats://:4222", "host and port"},
		{"nats://::1", "brackets"},
		{"tls://[[", "host and port"},
		{"nats://[x:y]:1", "host and port"},
		{"nats://u%zz:hunter2@h", "%25"},
		{"nats://u:hunter2%@h", "%25"},
		{"nats://u:hunter2@h:x", "host and port"},
		{"nats://h?replicas=6", "1 to 5"},
		{"nats://h?replicas=0", "1 to 5"},
		{"nats://h?bucket=", "needs one value"},
		{"nats://h?ca=a&ca=b", "needs one value"},
		{"nats://h?cert=a", "belong together"},
		{"nats://h?%zz", "cannot be read"},
		{"nats://u:hunter2@h?passwort=hunter2", `no option "passwort"`},
	} {
		_, err := ParseURL(tt.url)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want an error with %q", tt.url, err, tt.says)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the password: %v", tt.url, err)
		}
	}
	if IsURL("sqlite:/x") || IsURL("nats") || IsURL("/nats://x") {
		t.Error("other values are taken for ours")
	}
}

func TestConfigRefuses(t *testing.T) {
	servers := []string{"h:1"}
	for name, cfg := range map[string]Config{
		"no server":             {},
		"bucket":                {Servers: servers, Bucket: "a.b"},
		"replicas":              {Servers: servers, Replicas: 6},
		"two logins":            {Servers: servers, Token: "t", User: "u"},
		"password file, nobody": {Servers: servers, PasswordFile: "/p"},
		"two passwords":         {Servers: servers, User: "u", Password: "p", PasswordFile: "/p"},
		"credentials":           {Servers: servers, CredentialsFile: "/nowhere/creds"},
		"nkey":                  {Servers: servers, NKeyFile: "/nowhere/nkey"},
		"password file":         {Servers: servers, User: "u", PasswordFile: "/nowhere/password"},
		"certificates":          {Servers: servers, CAFile: "/nowhere/ca"},
		"key pair":              {Servers: servers, CertFile: "/nowhere/cert", KeyFile: "/nowhere/key"},
	} {
		if s, err := Open(t.Context(), cfg); err == nil {
			s.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

// However a configuration is shown, its secrets are not.
func TestSecretsAreHidden(t *testing.T) {
	cfg := Config{User: "u", Password: "hunter2", Token: "hunter2", Servers: []string{"h:1"}}
	var text bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&text, nil)} {
		slog.New(h).Info("x", "cfg", cfg, "password", cfg.Password)
	}
	fmt.Fprintf(&text, "%v %+v %#v %s %q", cfg, cfg, cfg, cfg.Password, cfg.Password)
	data, err := json.Marshal(cfg.Password)
	if err != nil {
		t.Fatal(err)
	}
	text.Write(data)
	if strings.Contains(text.String(), "hunter2") {
		t.Errorf("shown: %s", text.String())
	}
	if !strings.Contains(text.String(), "(hidden)") {
		t.Errorf("not shown to be there: %s", text.String())
	}
	if Secret("").String() != "" {
		t.Error("no secret looks like one")
	}
}

func TestReadSecret(t *testing.T) {
	for text, want := range map[string]Secret{"a\n": "a", "a b\r\n": "a b", "a": "a", "": "", "\n": "", "a\nb\n": ""} {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readSecret(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, string(got), err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("nats://user:hunter2@h1:4222,h2?bucket=b&replicas=3")
	f.Add("tls://[::1]:1/?ca=x")
	f.Add("tls://[[")
	f.Fuzz(func(t *testing.T, value string) {
		cfg, err := ParseURL(value)
		if err != nil {
			return
		}
		if len(cfg.Servers) == 0 {
			t.Errorf("%q: no server", value)
		}
		for _, s := range cfg.Servers {
			if again, err := parseHost(s); err != nil || again != s {
				t.Errorf("%q: server %q is read again as %q, %v", value, s, again, err)
			}
		}
	})
}
