package capnweb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

type entry struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Size int    `json:"size,omitempty"`
}

// files is the API of the examples.
func files() *capnweb.Target {
	sync := capnweb.NewTarget()
	sync.Handle("readEntry", capnweb.Func1(func(_ context.Context, path string) (*entry, error) {
		if path != "/a" {
			return nil, capnweb.Errorf("ENOENT", "no entry at %s", path)
		}
		return &entry{"file", path, 5}, nil
	}))
	sync.Handle("list", capnweb.Func0(func(context.Context) (capnweb.Stream[entry], error) {
		return capnweb.StreamOf(entry{"dir", "/", 0}, entry{"file", "/a", 5}), nil
	}))
	sync.Handle("push", capnweb.Func1(func(ctx context.Context, in struct {
		Changes capnweb.Stream[entry] `json:"changes"`
	},
	) (int, error) {
		n := 0
		for _, err := range in.Changes.All(ctx) {
			if err != nil {
				return 0, err
			}
			n++
		}
		return n, nil
	}))
	api := capnweb.NewTarget()
	api.Set("sync", sync)
	return api
}

// A service and its client, over any connection of whole messages.
func Example() {
	server, conn := rpc.Pair()
	ctx := context.Background()
	served := make(chan error)
	go func() { served <- capnweb.Serve(ctx, server, capnweb.Config{Main: files()}) }()

	client := capnweb.New(conn, capnweb.Config{})
	var e entry
	if err := client.Main().Call(ctx, &e, "sync.readEntry", "/a"); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%+v\n", e)
	err := client.Main().Call(ctx, &e, "sync.readEntry", "/b")
	fmt.Println(err, errors.Is(err, &capnweb.Error{Code: "ENOENT"}))

	client.Close()
	fmt.Println(<-served)
	// Output:
	// {Kind:file Path:/a Size:5}
	// no entry at /b (ENOENT) true
	// <nil>
}

// Streams go both ways, and wait for whoever reads them.
func ExampleStream() {
	server, conn := rpc.Pair()
	ctx := context.Background()
	defer capnweb.New(server, capnweb.Config{Main: files()}).Close()
	client := capnweb.New(conn, capnweb.Config{})
	defer client.Close()

	var list capnweb.Stream[entry]
	if err := client.Main().Call(ctx, &list, "sync.list"); err != nil {
		fmt.Println(err)
	}
	for e, err := range list.All(ctx) {
		fmt.Println(e.Path, err)
	}

	left := 3
	changes := capnweb.NewStream(func(context.Context) (entry, error) {
		if left == 0 {
			return entry{}, io.EOF
		}
		left--
		return entry{Kind: "delete", Path: "/x"}, nil
	}, nil)
	var n int
	err := client.Main().Call(ctx, &n, "sync.push", map[string]any{"changes": changes})
	fmt.Println(n, err)
	// Output:
	// / <nil>
	// /a <nil>
	// 3 <nil>
}

// A result can be used in further calls before it is there: one round trip for all.
func ExampleStub_Start() {
	api := capnweb.NewTarget()
	api.Handle("open", capnweb.Func1(func(_ context.Context, name string) (*capnweb.Target, error) {
		file := capnweb.NewTarget()
		file.Handle("read", capnweb.Func0(func(context.Context) (string, error) { return "content of " + name, nil }))
		file.OnDispose(func() { fmt.Println("closed", name) })
		return file, nil
	}))
	server, conn := rpc.Pair()
	ctx := context.Background()
	s := capnweb.New(server, capnweb.Config{Main: api})
	client := capnweb.New(conn, capnweb.Config{})

	file := client.Main().Start(ctx, "open", "a.txt")
	var text string
	if err := file.Call(ctx, &text, "read"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(text)
	file.Release()
	client.Close()
	s.Wait()
	// Output:
	// content of a.txt
	// closed a.txt
}

// A batch is one HTTP request for any number of calls.
func ExampleBatch() {
	srv := httptest.NewServer(capnweb.BatchHandler(func(*http.Request) capnweb.Config {
		return capnweb.Config{Main: files()}
	}))
	defer srv.Close()

	ctx := context.Background()
	batch := capnweb.NewBatch(srv.URL, nil, nil)
	defer batch.Close()
	a := batch.Main().Start(ctx, "sync.readEntry", "/a")
	b := batch.Main().Start(ctx, "sync.readEntry", "/b")
	if err := batch.Send(ctx); err != nil {
		fmt.Println(err)
	}
	var e entry
	fmt.Println(a.Await(ctx, &e), e.Size)
	fmt.Println(b.Await(ctx, &e))
	// Output:
	// <nil> 5
	// no entry at /b (ENOENT)
}
