package atomicfile_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/atomicfile"
)

func BenchmarkReplace(b *testing.B) {
	for name, size := range map[string]int{"4KiB": 4 << 10, "1MiB": 1 << 20, "16MiB": 16 << 20} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "f")
			data := strings.Repeat("x", size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := write(path, data, atomicfile.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
