package natsstate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"
)

// The servers' configuration in docs/relay-cluster/compose.yaml is one that they can read,
// and is of a cluster with JetStream and a password. (cmd/wsd looks at the rest.)
func TestComposeServers(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "relay-cluster", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Configs map[string]struct{ Content string }
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NATS_NAME", "nats-2")
	t.Setenv("NATS_PASSWORD", "p0123456789e0123")
	path := write0600(t, "nats.conf", []byte(strings.ReplaceAll(file.Configs["nats"].Content, "$$", "$")))
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if options.ServerName != "nats-2" || options.Username != "relay" || options.Password != "p0123456789e0123" {
		t.Errorf("name %q, user %q, password %q", options.ServerName, options.Username, options.Password)
	}
	if !options.JetStream || options.StoreDir != "/data" || !options.SyncAlways || options.HTTPHost != "127.0.0.1" {
		t.Errorf("JetStream %v in %s, synced always %v; status on %s", options.JetStream, options.StoreDir, options.SyncAlways, options.HTTPHost)
	}
	if len(options.Routes) != 3 || options.Cluster.Port != 6222 || options.Cluster.Name == "" {
		t.Errorf("routes %v, cluster %q on %d", options.Routes, options.Cluster.Name, options.Cluster.Port)
	}
}
