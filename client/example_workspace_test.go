package client_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
	"github.com/wsd-dev/wsd/server/workspace"
)

// exampleWorkspace runs a server of a workspace in memory, as 'wsd serve --workspace DIR'
// does in a program of its own.
func exampleWorkspace() (c *client.Client, dir string, end func()) {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "wsd-example")
	if err != nil {
		log.Fatal(err)
	}
	dir = filepath.Join(base, "w")
	if err := os.Mkdir(dir, 0o755); err != nil {
		log.Fatal(err)
	}
	ws, err := workspace.Open(ctx, workspace.Config{Dir: dir, Store: filepath.Join(base, "w.db"), MountPoint: dir})
	if err != nil {
		log.Fatal(err)
	}
	srv, err := execserver.New(execserver.Config{Workspace: ws})
	if err != nil {
		log.Fatal(err)
	}
	a, b := rpc.Pair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ServeConnection(ctx, b, server.ConnectionOptions{})
	}()
	if c, err = client.New(ctx, a, nil, nil); err != nil {
		log.Fatal(err)
	}
	return c, dir, func() {
		_ = c.Close()
		<-done
		_ = srv.Close()
		_ = ws.Close()
		_ = os.RemoveAll(base)
	}
}

// A durable run can be followed by anybody, from any point.
func ExampleClient_Exec() {
	c, _, end := exampleWorkspace()
	defer end()
	ctx := context.Background()
	run, err := c.Exec(ctx, client.DurableCommand{Line: "echo one; echo two >&2; exit 3"})
	if err != nil {
		log.Fatal(err)
	}
	code, err := run.Wait(ctx, os.Stdout, nil)
	fmt.Println(code, err)

	again, err := c.GetExec(ctx, run.ID(), 0)
	if err != nil {
		log.Fatal(err)
	}
	for {
		e, err := again.Next(ctx)
		if err != nil {
			break // io.EOF
		}
		fmt.Printf("%t %q %d\n", e.Ended(), e.Data, e.ExitCode)
	}
	// Unordered output:
	// one
	// 3 <nil>
	// false "one\n" 0
	// false "two\n" 0
	// true "" 3
}

// A file is pushed: its content, and then the entry that names it.
func ExampleClient_Sync() {
	c, dir, end := exampleWorkspace()
	defer end()
	ctx := context.Background()
	peer := c.Sync()

	content := []byte("hello from elsewhere\n") // up to 512 KiB are one object
	hash := tree.Hash(sha256.Sum256(content))
	if err := peer.PushObjects(ctx, changes.FromSlice([]tree.Data{{Hash: hash, Bytes: content}})); err != nil {
		log.Fatal(err)
	}
	entry := tree.Entry{
		Kind: tree.KindFile, Rev: 1, Path: dir + "/hello", Mode: 0o644, MTime: time.Now(),
		Size: int64(len(content)), Parts: []tree.Part{{Hash: hash, Size: int64(len(content))}},
	}
	r, err := peer.Push(ctx, changes.PushInput{SenderRev: 1}, changes.FromSlice([]tree.Entry{entry}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Applied, "entry applied")

	run, err := c.Exec(ctx, client.DurableCommand{Line: "cat hello"}) // it is there at once
	if err != nil {
		log.Fatal(err)
	}
	if _, err := run.Wait(ctx, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 entry applied
	// hello from elsewhere
}
