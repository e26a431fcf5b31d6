package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

// exampleServer runs a server in memory. A program that uses one over the network
// calls Dial instead.
func exampleServer() (c *client.Client, end func()) {
	srv, err := execserver.New(execserver.Config{})
	if err != nil {
		log.Fatal(err)
	}
	a, b := rpc.Pair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ServeConnection(context.Background(), b, server.ConnectionOptions{})
	}()
	c, err = client.New(context.Background(), a, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	return c, func() {
		_ = c.Close()
		<-done
		_ = srv.Close()
	}
}

func ExampleClient_Run() {
	c, end := exampleServer()
	defer end()
	result, err := c.Run(context.Background(), client.Command{
		Argv: []string{"sh", "-c", "tr a-z A-Z; echo done >&2; exit 3"},
	}, strings.NewReader("hello"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s / %s / %d\n", result.Stdout, strings.TrimSpace(string(result.Stderr)), result.Code)
	// Output: HELLO / done / 3
}

func ExampleClient_Start() {
	c, end := exampleServer()
	defer end()
	ctx := context.Background()
	p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", `while read line; do echo "got $line"; done`}, Stdin: true})
	if err != nil {
		log.Fatal(err)
	}
	_ = p.Stderr.Close() // it is not read
	answers := bufio.NewScanner(p.Stdout)
	for _, word := range []string{"one", "two"} {
		fmt.Fprintln(p.Stdin, word)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	if err := p.Stdin.Close(); err != nil {
		log.Fatal(err)
	}
	status, err := p.Wait(ctx)
	fmt.Println(status.Code, err)
	// Output:
	// got one
	// got two
	// 0 <nil>
}

func ExampleClient_Start_terminal() {
	c, end := exampleServer()
	defer end()
	ctx := context.Background()
	p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "stty size; cat"}, TTY: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Stdin.Close(); err != nil { // types ^D
		log.Fatal(err)
	}
	screen, err := io.ReadAll(p.Stdout)
	fmt.Println(strings.Contains(string(screen), "24 80"), err)
	// Output: true <nil>
}

func ExampleClient_WriteFile() {
	c, end := exampleServer()
	defer end()
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "notes.txt")
	if _, err := c.WriteFile(ctx, name, []byte("draft"), &client.WriteOptions{IfAbsent: true}); err != nil {
		log.Fatal(err)
	}
	text, hash, err := c.ReadFileHash(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	// Somebody else writes meanwhile.
	if err := os.WriteFile(name, []byte("theirs"), 0o600); err != nil {
		log.Fatal(err)
	}
	_, err = c.WriteFile(ctx, name, append(text, " 2"...), &client.WriteOptions{IfMatch: hash})
	conflict, ok := errors.AsType[*client.PreconditionError](err)
	fmt.Println(ok && conflict.CurrentHash != hash)
	// Output: true
}

func ExampleClient_Open() {
	c, end := exampleServer()
	defer end()
	f, err := c.Open(context.Background(), "/etc/passwd")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	first, err := bufio.NewReader(f).ReadString(':')
	fmt.Println(first, err)
	// Output: root: <nil>
}
