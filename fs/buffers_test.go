package fs_test

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/protocol"
)

// Contents are read into memory that is used again, but never before it was answered:
// of reads beside each other and after each other each has its own.
func TestLargeReadsBesideEachOther(t *testing.T) {
	c := newClient(t, fs.Config{})
	sizes := []int{40 << 10, 1<<20 + 1, 3 << 20, 2 << 20}
	contents := make([][]byte, len(sizes))
	for i, size := range sizes {
		contents[i] = bytes.Repeat([]byte{'a' + byte(i)}, size)
		if err := os.WriteFile(c.path(fmt.Sprint(i)), contents[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i, want := range contents {
		wg.Go(func() {
			for range 8 {
				var got protocol.ReadFileResult
				if err := c.peer.Call(t.Context(), "fs/readFile", object{"path": c.uri + "/" + fmt.Sprint(i)}, &got); err != nil {
					t.Error(err)
				} else if !bytes.Equal(got.DataBase64, want) {
					t.Errorf("file %d is read as %d bytes that are not its own", i, len(got.DataBase64))
				}
			}
		})
	}
	wg.Wait()
}
