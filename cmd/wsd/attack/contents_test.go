//go:build attack && linux

package attack

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// Clients that write and read contents of all sizes at a time, with and without a sandbox,
// as files and as streams, and whose connections are cut at any time, get what they have
// written and nothing of each other's, whether there is memory for all or not.
func TestContentsStayApart(t *testing.T) {
	clients, rounds := 4, 4
	if !testing.Short() {
		rounds = 20
	}
	for name, size := range map[string]int{"much memory": 1 << 30, "little memory": 160 << 20} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, os.Geteuid())
			s := w.serve(nil, "--metrics", "--memory-budget", fmt.Sprint(size))
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					a := &author{server: s, dir: filepath.Join(w.dir, fmt.Sprint(i)), rand: rand.New(rand.NewPCG(rand.Uint64(), 0)), sender: rand.New(rand.NewPCG(rand.Uint64(), 1)), spare: size < 1<<30}
					w.mkdir(a.dir)
					a.box = w.policy(at(a.dir, protocol.AccessWrite), root(protocol.AccessRead))
					for range rounds {
						if err := a.round(); err != nil {
							t.Errorf("client %d, round: %v", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			s.givenBack()
		})
	}
}

// givenBack waits until the server counts no memory as in use.
func (s *server) givenBack() {
	s.w.Helper()
	var page string
	for began := time.Now(); time.Since(began) < time.Minute; <-time.After(20 * time.Millisecond) {
		if _, page = s.get("/metrics", s.Addr); strings.Contains(page, "wsd_memory_used_bytes 0\n") {
			return
		}
	}
	s.w.Errorf("memory is in use that nobody has:\n%s", page)
}

// errContent is the error of a read of something else than what is there.
var errContent = errors.New("another content")

// An author writes files and reads them.
type author struct {
	*server
	dir          string
	box          *protocol.Sandbox
	rand, sender *rand.Rand // of the round, and of who sends in it
	// rounds counts them.
	rounds int
	// spare: the server may have no memory for this client, and close the connection.
	spare bool
}

// A text is content that no other text shares a part of.
type text struct {
	seed uint64
	size int
}

func (a *author) text() text {
	sizes := []int{1, 30 << 10, 48 << 10, 64 << 10, 80 << 10, 250 << 10, 1 << 20, 1<<20 + 4096, 3 << 20}
	if a.rand.IntN(4) == 0 {
		sizes = []int{5 << 20, 12 << 20, 16 << 20, 17 << 20}
	}
	return text{a.rand.Uint64(), max(1, sizes[a.rand.IntN(len(sizes))]+a.rand.IntN(9)-4)}
}

func (t text) bytes() []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], t.seed)
	b := make([]byte, t.size)
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	return b
}

// is says how data differs from each of texts.
func is(data []byte, texts ...text) error {
	var errs []error
	for _, t := range texts {
		want := t.bytes()
		if bytes.Equal(data, want) {
			return nil
		}
		at := 0
		for at < min(len(data), len(want)) && data[at] == want[at] {
			at++
		}
		errs = append(errs, fmt.Errorf("%d bytes for %d, other from %d: % x", len(data), t.size, at, data[at:min(at+16, len(data))]))
	}
	return errors.Join(errs...)
}

// round writes some files in one go, and reads them, on a new connection.
func (a *author) round() error {
	c, err := raw.Dial(a.w.Context(), a.Addr, raw.Config{Timeout: 5 * time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Initialize(""); err != nil {
		return err
	}
	a.rounds++
	old, files := map[string]text{}, map[string]text{}
	var order []string
	for i := range 1 + a.rand.IntN(4) {
		path := filepath.Join(a.dir, fmt.Sprint(a.rounds, "-", i)) // one that no earlier request is about
		files[path] = a.text()
		order = append(order, path)
		old[path] = a.text()
		if err := os.WriteFile(path, old[path].bytes(), 0o600); err != nil {
			return err
		}
	}
	cut := a.rand.IntN(4) == 0
	refused, err := a.write(c, order, files, cut)
	if err != nil && a.spare {
		cut = true // by the server, with 1013
	}
	if err != nil && !cut {
		return err
	}
	if cut {
		_ = c.Close()
	}
	for path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		may := []text{files[path]}
		if cut || refused[path] {
			may = append(may, old[path])
		}
		if err := is(data, may...); err != nil {
			return fmt.Errorf("file, cut %v: %w", cut, err)
		}
		if cut {
			files[path] = text{}
		}
	}
	if cut {
		return nil
	}
	defer func() {
		for path := range files {
			_ = os.Remove(path) // there is not room for all
		}
	}()
	if err := a.read(c, order); err != nil && (errors.Is(err, errContent) || !a.spare) {
		return err
	}
	return nil
}

// write sends all at once. With cut it returns at any time.
func (a *author) write(c *raw.Client, order []string, files map[string]text, cut bool) (refused map[string]bool, err error) {
	ids, hashes := map[int64]string{}, map[int64]string{}
	refused = map[string]bool{}
	var mu sync.Mutex // guards both
	send := func(path, method string, params map[string]any) error {
		id, msg, err := c.Encode(method, params)
		if err != nil {
			return err
		}
		mu.Lock()
		ids[id] = path
		if method == "fs/writeFile" {
			hashes[id] = fmt.Sprintf("sha256:%x", sha256.Sum256(params["dataBase64"].([]byte)))
		}
		mu.Unlock()
		if cut && a.sender.IntN(6) == 0 {
			// A part of the frame, and no more.
			head := binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, uint64(len(msg)))
			_, _ = c.Conn().Write(append(append(head, 0, 0, 0, 0), msg[:a.sender.IntN(len(msg))]...))
			return errors.New("cut")
		}
		return c.Send(msg)
	}
	errs := make(chan error, 1)
	sent := make(chan struct{})
	go func() { // awaited below
		defer close(sent)
		errs <- func() error {
			for _, path := range order {
				var box *protocol.Sandbox
				if a.sender.IntN(3) == 0 {
					box = a.box
				}
				data := files[path].bytes()
				step := func(method string, params map[string]any) error { return send(path, method, params) }
				if a.sender.IntN(3) > 0 {
					if err := step("fs/writeFile", map[string]any{"path": fileuri.Format(path), "dataBase64": data, "includeHash": true, "sandbox": box}); err != nil {
						return err
					}
					continue
				}
				handle := "w" + filepath.Base(path)
				if err := step("fs/open", map[string]any{"handleId": handle, "path": fileuri.Format(path), "mode": "replace", "sandbox": box}); err != nil {
					return err
				}
				for at := 0; at < len(data); {
					n := min(len(data)-at, protocol.MaxBlockBytes-a.sender.IntN(100))
					if err := step("fs/writeBlock", map[string]any{"handleId": handle, "offset": at, "chunk": data[at : at+n]}); err != nil {
						return err
					}
					at += n
				}
				if err := step("fs/close", map[string]any{"handleId": handle}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	if cut && a.rand.IntN(2) == 0 {
		<-sent
		return refused, nil
	}
	for done := false; ; {
		mu.Lock()
		left := len(ids)
		mu.Unlock()
		if left == 0 {
			if done {
				return refused, nil
			}
			err := <-errs
			if err != nil {
				return refused, err
			}
			done = true
			continue
		}
		m, err := c.Read()
		if err != nil {
			<-sent
			return refused, err
		}
		if m.Method != "" {
			continue
		}
		mu.Lock()
		path, hash := ids[m.ID], hashes[m.ID]
		delete(ids, m.ID)
		mu.Unlock()
		if path == "" {
			return refused, fmt.Errorf("an answer to nothing: %.200s", m.Raw)
		}
		if m.Failed {
			refused[path] = true
			continue
		}
		if hash != "" {
			var result struct{ Hash string }
			if err := m.Decode(&result); err != nil || result.Hash != hash {
				return refused, fmt.Errorf("hash %s for %s, %v", result.Hash, hash, err)
			}
		}
		if cut && a.rand.IntN(5) == 0 {
			_ = c.Close()
			<-sent
			return refused, nil
		}
	}
}

// read reads all files at once, and checks what arrives against what is there.
func (a *author) read(c *raw.Client, order []string) error {
	type want struct {
		path string
		from int
		to   int
	}
	wants := map[int64]want{}
	request := func(w want, method string, params map[string]any) error {
		id, err := c.Request(method, params)
		wants[id] = w
		return err
	}
	content := map[string][]byte{}
	for _, path := range order {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content[path] = data
		var box *protocol.Sandbox
		if a.rand.IntN(3) == 0 {
			box = a.box
		}
		if a.rand.IntN(3) > 0 {
			if err := request(want{path, 0, len(data)}, "fs/readFile", map[string]any{"path": fileuri.Format(path), "sandbox": box}); err != nil {
				return err
			}
			continue
		}
		handle := "r" + filepath.Base(path)
		if err := request(want{path, 0, -1}, "fs/open", map[string]any{"handleId": handle, "path": fileuri.Format(path), "mode": "read", "sandbox": box}); err != nil {
			return err
		}
		for at := 0; at < len(data); {
			n := min(len(data)-at, 1+a.rand.IntN(protocol.MaxBlockBytes))
			if err := request(want{path, at, at + n}, "fs/readBlock", map[string]any{"handleId": handle, "offset": at, "len": n}); err != nil {
				return err
			}
			at += n
		}
		if err := request(want{path, 0, -1}, "fs/close", map[string]any{"handleId": handle}); err != nil {
			return err
		}
	}
	for len(wants) > 0 {
		m, err := c.Read()
		if err != nil {
			return err
		}
		w, ok := wants[m.ID]
		delete(wants, m.ID)
		if !ok {
			return fmt.Errorf("an answer to nothing: %.200s", m.Raw)
		}
		if m.Failed || w.to < 0 {
			continue
		}
		var result struct{ DataBase64, Chunk []byte }
		if err := m.Decode(&result); err != nil {
			return err
		}
		got := append(result.DataBase64, result.Chunk...)
		if !bytes.Equal(got, content[w.path][w.from:w.to]) {
			return fmt.Errorf("%w: %d to %d of %s: %d bytes, % x", errContent, w.from, w.to, w.path, len(got), got[:min(16, len(got))])
		}
	}
	return nil
}
