package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate"
)

// What docs/relay-cluster/compose.yaml has of the things that this test looks at.
type compose struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Secrets     []string
		Environment map[string]string
		Volumes     []string
		DependsOn   map[string]any `yaml:"depends_on"`
		ReadOnly    bool           `yaml:"read_only"`
		Configs     []struct{ Source string }
		Build       *struct {
			Dockerfile string `yaml:"dockerfile_inline"`
		}
	}
	Configs map[string]struct{ Content string }
	Secrets map[string]struct{ Environment string }
	Volumes map[string]any
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// commandFor finds the command that args name and reads its flags, as wsd does.
func commandFor(t *testing.T, args []string) *cobra.Command {
	t.Helper()
	cmd, rest, err := (&app{stdout: io.Discard, stderr: io.Discard}).newRoot().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil {
		t.Fatalf("wsd %s: %v", strings.Join(args, " "), err)
	}
	return cmd
}

// The compose file of a cluster fits this version of wsd, and its parts fit each other.
func TestRelayClusterCompose(t *testing.T) {
	var file compose
	if err := yaml.Unmarshal([]byte(readDoc(t, "docs/relay-cluster/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	proxy := file.Configs["caddy"].Content
	var relays, servers []string
	urls := map[string]bool{}
	for name, s := range file.Services {
		if !regexp.MustCompile(`^[a-z/-]+:(\d+\.\d+\.\d+(-alpine)?|local)$`).MatchString(s.Image) {
			t.Errorf("%s: the image %s is not pinned", name, s.Image)
		}
		// Compose copies what is in no file into the container, and fails if that is
		// read-only (docker/compose issue 12031).
		if s.ReadOnly && len(s.Configs)+len(s.Secrets) > 0 {
			t.Errorf("%s: a secret or a configuration is to be copied into what is read-only", name)
		}
		for _, c := range s.Configs {
			if file.Configs[c.Source].Content == "" {
				t.Errorf("%s: no config %s", name, c.Source)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := file.Volumes[volume]; !ok {
				t.Errorf("%s: no volume %s", name, volume)
			}
		}
		switch {
		case strings.HasPrefix(s.Image, "nats:"):
			servers = append(servers, name)
			if s.Environment["NATS_NAME"] != name {
				t.Errorf("%s is called %q", name, s.Environment["NATS_NAME"])
			}
		case strings.HasPrefix(s.Image, "wsd-relay:"):
			relays = append(relays, name)
			if s.Build == nil || !strings.Contains(s.Build.Dockerfile, `ENTRYPOINT ["/wsd"]`) {
				t.Errorf("%s: wsd is not what it runs", name)
			}
		}
	}
	slices.Sort(servers)
	if len(relays) != 3 || len(servers) != 3 {
		t.Fatalf("relays %v, servers %v", relays, servers)
	}
	for _, name := range relays {
		s := file.Services[name]
		var args []string
		for _, a := range s.Command {
			args = append(args, regexp.MustCompile(`\$\{DOMAIN(:\?)?\}`).ReplaceAllString(a, "relay.example"))
		}
		cmd := commandFor(t, args)
		if cmd.Name() != "relay" {
			t.Errorf("%s runs %s", name, cmd.CommandPath())
		}
		flag := func(f string) string { return cmd.Flag(f).Value.String() }
		if flag("listen") != "http://0.0.0.0:8080" || flag("behind-proxy") != "true" || flag("node-id") != name || flag("public-url") != "https://relay.example" {
			t.Errorf("%s: %v", name, args)
		}
		node := flag("node-url")
		if _, err := registry.ParseBaseURL(node); err != nil || urls[node] || node == flag("public-url") {
			t.Errorf("%s: --node-url=%s, %v", name, node, err)
		}
		urls[node] = true
		// The proxy has a site of that name, which leads to this node.
		site := strings.ReplaceAll(strings.TrimPrefix(node, "https://"), "relay.example", "{$$DOMAIN}")
		if !strings.Contains(proxy, fmt.Sprintf("%s {\n  reverse_proxy %s:8080\n", site, name)) {
			t.Errorf("the proxy does not know %s", site)
		}

		state, err := natsstate.ParseURL(flag("state"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, server := range servers {
			want = append(want, server+":4222")
			if s.DependsOn[server] == nil {
				t.Errorf("%s does not wait for %s", name, server)
			}
		}
		if !slices.Equal(state.Servers, want) {
			t.Errorf("%s: servers %v, want %v", name, state.Servers, want)
		}
		secret := strings.TrimPrefix(state.PasswordFile, "/run/secrets/")
		if state.User == "" || !slices.Contains(s.Secrets, secret) || file.Secrets[secret].Environment != "NATS_PASSWORD" {
			t.Errorf("%s: no password %s", name, state.PasswordFile)
		}
	}
	// The servers are of the version that the tests run with.
	version := regexp.MustCompile(`nats-server/v2 v([0-9.]+)`).FindStringSubmatch(readDoc(t, "go.mod"))
	if version == nil || file.Services["nats-1"].Image != "nats:"+version[1]+"-alpine" {
		t.Errorf("the servers are %s, tested is %v", file.Services["nats-1"].Image, version)
	}
}

// The page shows commands that there are, and the times that nodes go by.
func TestRelayClusterPage(t *testing.T) {
	page := readDoc(t, "docs/relay-cluster.md")
	commands := regexp.MustCompile(`(?m)^(?:docker compose exec relay-1 /)?wsd (.*)$`).FindAllStringSubmatch(page, -1)
	if len(commands) < 6 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, c := range commands {
		args, _, _ := strings.Cut(c[1], " -- ")
		if cmd := commandFor(t, strings.Fields(args)); !cmd.Runnable() {
			t.Errorf("%s", c[0])
		}
	}
	for _, says := range []string{
		fmt.Sprintf("%v after its last heartbeat (there is one every %v)", rendezvous.NodeLease, rendezvous.Heartbeat),
		fmt.Sprintf("closed within %v", rendezvous.Heartbeat),
		fmt.Sprintf("wait up to %v", natsstate.DefaultTimeout),
		"`" + natsstate.DefaultBucket + "`",
	} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
}
