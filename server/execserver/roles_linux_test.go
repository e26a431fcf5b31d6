package execserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/execserver"
)

// A file whose content does not fit one message of the helper's is read through it
// all the same.
func TestConfinedReadOfLargeFile(t *testing.T) {
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { _ = box.Close() })
	peer, _ := connectPeer(t, execserver.Config{Sandbox: box, Confines: true})
	dir := t.TempDir()
	uri, path := fileuri.Format(dir), filepath.Join(dir, "large")
	const size = protocol.MaxMessageBytes*3/4 + 1 // one byte more than fits in base64
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	var got protocol.ReadFileResult
	err := peer.Call(t.Context(), protocol.MethodFsReadFile, &protocol.ReadFileParams{
		Path: fileuri.Format(path),
		Sandbox: &protocol.Sandbox{
			Permissions: protocol.Permissions{
				Type: protocol.PermissionsManaged, Network: protocol.NetworkRestricted,
				FileSystem: &protocol.FileSystemPermissions{
					Type: protocol.FileSystemRestricted,
					Entries: []protocol.PermissionEntry{
						{Path: protocol.PermissionPath{Type: "special", Value: &protocol.SpecialPath{Kind: "minimal"}}, Access: protocol.AccessRead},
						{Path: protocol.PermissionPath{Type: "path", Path: &uri}, Access: protocol.AccessRead},
					},
				},
			},
			WindowsSandboxLevel: "disabled", Cwd: &uri,
		},
	}, &got)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.DataBase64) != size {
		t.Errorf("read %d bytes of %d", len(got.DataBase64), size)
	}
}
