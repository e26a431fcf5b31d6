package execserver_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/server/execserver"
)

var docMethod = regexp.MustCompile("^\\| `([A-Za-z]+(?:/[A-Za-z0-9]+)?)` \\| .* \\| (?:codex|additive `([A-Za-z]+)`) \\|$")

// The page on the protocol lists the methods that there are, says of wsd's own which
// capability stands for each, and names every capability that is announced.
func TestProtocolDocument(t *testing.T) {
	data, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { _ = box.Close() })
	_, result := connectPeer(t, execserver.Config{Sandbox: box, Confines: true})
	announced := result.EnvironmentInfo.Capabilities

	_, table, _ := strings.Cut(page, "\n## Methods\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var methods []string
	for line := range strings.Lines(table) {
		m := docMethod.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		methods = append(methods, m[1])
		if m[2] != "" && !slices.Contains(methodCapabilities[m[2]], m[1]) && !slices.Contains(workspaceCapabilities[m[2]], m[1]) {
			t.Errorf("%s is not what the capability %s stands for", m[1], m[2])
		}
	}
	slices.Sort(methods)
	if diff := cmp.Diff(execserver.Table().Names(), methods); diff != "" {
		t.Errorf("methods (-table +document):\n%s", diff)
	}
	for name := range announced {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the document does not name the capability %s", name)
		}
	}
}
