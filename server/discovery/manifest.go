package discovery

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// plugin reads what the manifest of the root refers to: the files that its members
// mcpServers and apps name, or else those with the usual names.
func (s *scan) plugin(manifest *protocol.CapabilityFile) *protocol.DiscoveredPlugin {
	var members map[string]json.RawMessage
	_ = json.Unmarshal([]byte(manifest.Contents), &members) // what is not JSON refers to nothing
	p := &protocol.DiscoveredPlugin{Manifest: *manifest}
	if !isObject(members["mcpServers"]) { // else the servers are in the manifest itself
		p.MCPConfig = s.at(s.dir, s.named(manifest.Path, "mcpServers", members["mcpServers"], mcpName))
	}
	p.AppsConfig = s.at(s.dir, s.named(manifest.Path, "apps", members["apps"], appsName))
	return p
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// named is the file that a manifest's member names, below the root, or usual.
func (s *scan) named(manifest, member string, raw json.RawMessage, usual string) string {
	var name *string
	if json.Unmarshal(raw, &name) != nil || name == nil {
		return usual
	}
	below, ok := strings.CutPrefix(*name, "./")
	if !ok {
		s.warn("ignoring %s in %s: path must start with `./`", member, manifest)
		return usual
	}
	if strings.Trim(below, "/.") == "" || slices.Contains(strings.Split(below, "/"), "..") || strings.Contains(below, "\x00") {
		s.warn("ignoring %s in %s: path must remain below the capability root", member, manifest)
		return usual
	}
	return below
}
