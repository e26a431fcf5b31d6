package layers

import (
	"debug/elf"
	"debug/macho"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxBytes is what a release binary may weigh: 32 MB.
const maxBytes = 32 << 20

// TestBinary builds wsd as `make build` does and looks at the result.
func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wsd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", path, module+"/cmd/wsd")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	checkStatic(t, path)
}

// TestReleaseBinaries looks at what `make cross` built; without WSD_DIST there is
// nothing to look at, and TestBinary has built one.
func TestReleaseBinaries(t *testing.T) {
	dist := os.Getenv("WSD_DIST")
	if dist == "" {
		return
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch, machine := range machines {
		t.Run("linux/"+arch, func(t *testing.T) {
			if got := checkStatic(t, filepath.Join(dist, "wsd-linux-"+arch)); got != machine {
				t.Errorf("built for %v", got)
			}
		})
	}
	if _, err := macho.Open(filepath.Join(dist, "wsd-darwin-arm64")); err != nil {
		t.Error(err)
	}
}

// checkStatic fails the test unless the file at path is an ELF program of at most
// maxBytes that needs no loader and no library. It returns the machine it is for.
func checkStatic(t *testing.T, path string) elf.Machine {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBytes {
		t.Errorf("%d bytes, more than %d", info.Size(), maxBytes)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("has a %v segment: it is linked dynamically", p.Type)
		}
	}
	t.Logf("%s: %.1f MB, static", filepath.Base(path), float64(info.Size())/1e6)
	return f.Machine
}
