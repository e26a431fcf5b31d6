package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The least limit of the groups around counts, of either version of cgroups.
func TestMemoryOfCgroups(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"memory.max": "max\n", "a/memory.max": "3000\n", "a/b/memory.max": "4000\n", "c/memory.max": "max\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/d/memory.limit_in_bytes": "2000\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for groups, want := range map[string]int64{
		"0::/\n": 5000, "0::/a/b\n": 3000, "0::/c\n": 5000, "0::/gone\n": 5000, "0::/../a\n": 3000,
		"5:memory:/d\n4:cpu,cpuacct:/a\n": 2000, "": 5000, "nonsense": 5000,
	} {
		if got := leastLimit(5000, root, groups); got != want {
			t.Errorf("%q: %d, want %d", groups, got, want)
		}
	}
}
