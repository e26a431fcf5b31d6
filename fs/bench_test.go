package fs_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/fs/fileuri"
)

// Benchmarks go through a connection in memory, JSON and base64 both ways included.

func benchClient(b *testing.B) (*rpc.Peer, string) {
	b.Helper()
	table := rpc.NewTable()
	fs.Register(table)
	scope := table.NewScope()
	a, z := rpc.Pair()
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: serverHandler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	service := fs.NewService(server, fs.Config{Host: fs.NewHost()})
	scope.Bind(service)
	peer := rpc.NewPeer(z, rpc.PeerConfig{})
	for _, p := range []*rpc.Peer{server, peer} {
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Serve(b.Context()) }()
		b.Cleanup(func() { p.Close(); <-done })
	}
	b.Cleanup(func() { _ = service.Close() })
	return peer, b.TempDir()
}

// reportCPU tells the time of processors that an operation takes, server and client
// together, which other load on the machine hardly changes.
func reportCPU(b *testing.B) func() {
	start := cpuTime(b)
	return func() {
		b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N), "cpu-µs/op")
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

var sizes = []struct {
	name string
	n    int
}{{"4KiB", 4 << 10}, {"1MiB", 1 << 20}, {"16MiB", 16 << 20}}

func BenchmarkWriteFile(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			peer, dir := benchClient(b)
			params := &protocol.WriteFileParams{Path: fileuri.Format(dir + "/f"), DataBase64: make([]byte, size.n)}
			b.SetBytes(int64(size.n))
			defer reportCPU(b)()
			for b.Loop() {
				must(b, peer.Call(b.Context(), "fs/writeFile", params, nil))
			}
		})
	}
}

func BenchmarkReadFile(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			peer, dir := benchClient(b)
			path := fileuri.Format(dir + "/f")
			must(b, peer.Call(b.Context(), "fs/writeFile", &protocol.WriteFileParams{Path: path, DataBase64: make([]byte, size.n)}, nil))
			b.SetBytes(int64(size.n))
			defer reportCPU(b)()
			for b.Loop() {
				must(b, peer.Call(b.Context(), "fs/readFile", &protocol.ReadFileParams{Path: path}, nil))
			}
		})
	}
}

func BenchmarkGetMetadata(b *testing.B) {
	peer, dir := benchClient(b)
	defer reportCPU(b)()
	for b.Loop() {
		must(b, peer.Call(b.Context(), "fs/getMetadata", &protocol.GetMetadataParams{Path: fileuri.Format(dir)}, nil))
	}
}

func BenchmarkReadDirectory10000(b *testing.B) {
	peer, dir := benchClient(b)
	for i := range 10_000 {
		must(b, peer.Call(b.Context(), "fs/symlink", &protocol.SymlinkParams{Path: fileuri.Format(fmt.Sprintf("%s/%d", dir, i)), Target: new(".")}, nil))
	}
	b.Run("links", func(b *testing.B) {
		defer reportCPU(b)()
		for b.Loop() {
			must(b, peer.Call(b.Context(), "fs/readDirectory", &protocol.ReadDirectoryParams{Path: fileuri.Format(dir)}, nil))
		}
	})
	must(b, peer.Call(b.Context(), "fs/remove", &protocol.RemoveParams{Path: fileuri.Format(dir)}, nil))
	for i := range 10_000 {
		must(b, peer.Call(b.Context(), "fs/createDirectory", &protocol.CreateDirectoryParams{Path: fileuri.Format(fmt.Sprintf("%s/%d", dir, i))}, nil))
	}
	b.Run("directories", func(b *testing.B) {
		defer reportCPU(b)()
		for b.Loop() {
			must(b, peer.Call(b.Context(), "fs/readDirectory", &protocol.ReadDirectoryParams{Path: fileuri.Format(dir)}, nil))
		}
	})
}

func BenchmarkBlockStream64MiB(b *testing.B) {
	const size = 64 << 20
	peer, dir := benchClient(b)
	path := fileuri.Format(dir + "/f")
	write := func() {
		must(b, peer.Call(b.Context(), "fs/open", &protocol.OpenParams{HandleID: "h", Path: path, Mode: protocol.OpenReplace}, nil))
		chunk := make([]byte, protocol.MaxBlockBytes)
		for offset := 0; offset < size; offset += len(chunk) {
			must(b, peer.Call(b.Context(), "fs/writeBlock", &protocol.WriteBlockParams{HandleID: "h", Offset: uint64(offset), Chunk: chunk}, nil))
		}
		must(b, peer.Call(b.Context(), "fs/close", &protocol.CloseHandleParams{HandleID: "h"}, nil))
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(size)
		defer reportCPU(b)()
		for b.Loop() {
			write()
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		defer reportCPU(b)()
		for b.Loop() {
			must(b, peer.Call(b.Context(), "fs/open", &protocol.OpenParams{HandleID: "h", Path: path}, nil))
			for offset := 0; offset < size; offset += protocol.MaxBlockBytes {
				must(b, peer.Call(b.Context(), "fs/readBlock", &protocol.ReadBlockParams{HandleID: "h", Offset: uint64(offset), Len: protocol.MaxBlockBytes}, nil))
			}
			must(b, peer.Call(b.Context(), "fs/close", &protocol.CloseHandleParams{HandleID: "h"}, nil))
		}
	})
}
