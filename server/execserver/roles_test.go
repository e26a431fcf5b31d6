package execserver

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// The helper serves fs/*, needs no handshake and ends with its connection.
func TestServeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := rpc.Pair()
	served := make(chan error, 1)
	go func() { served <- serveFilesOn(context.Background(), a) }()
	client := rpc.NewPeer(b, rpc.PeerConfig{})
	read := make(chan struct{})
	go func() { defer close(read); _ = client.Serve(context.Background()) }()
	var got protocol.ReadFileResult
	if err := client.Call(t.Context(), protocol.MethodFsReadFile, &protocol.ReadFileParams{Path: "file://" + path}, &got); err != nil {
		t.Error(err)
	}
	if string(got.DataBase64) != "content" {
		t.Errorf("read %q", got.DataBase64)
	}
	err := client.Call(t.Context(), protocol.MethodProcessStart, &protocol.Empty{}, nil)
	if failure := rpc.WireError(err); failure == nil || failure.Code != protocol.CodeMethodNotFound {
		t.Errorf("process/start in the helper: %v", err)
	}
	client.Close()
	if err := <-served; err != nil {
		t.Errorf("the helper ended with %v", err)
	}
	<-read
}

func TestRoles(t *testing.T) {
	if len(Roles()) != 1 || Roles()["fs"] == nil {
		t.Errorf("roles %v", Roles())
	}
}
