//go:build e2e && linux

package netem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const fileSize = 64 << 20

// A bad network, all the time; the others happen while a file is copied.
var (
	lossy = Weather{Loss: 0.05, Delay: 20 * time.Millisecond, Jitter: 4 * time.Millisecond, Reorder: 0.05}
	far   = Weather{Delay: 20 * time.Millisecond}
)

// patience bounds each scenario.
const patience = 170 * time.Second

// Over each of these networks an interactive shell and a copy of 64 MiB survive.
func TestNetworks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// weather is that of the executor's and the client's link: 80 ms there and back
		// from one to the other.
		weather Weather
		// happens, if set, is called when a quarter of the file has been copied.
		happens func(w *world) error
		// counting is how long the shell prints, at least as long as it takes.
		counting time.Duration
	}{
		{"LossDelayReorder", lossy, nil, 20 * time.Second},
		{"ClientsLinkDown20s", far, func(w *world) error { return down(w, w.client, 20*time.Second) }, 30 * time.Second},
		{"ExecutorsLinkDown20s", far, func(w *world) error { return down(w, w.executor, 20*time.Second) }, 30 * time.Second},
		{"ClientsAddressChanges", far, func(w *world) error { return w.client.readdress(netip.MustParseAddr("10.77.0.13")) }, 20 * time.Second},
		{"ExecutorsAddressChanges", far, func(w *world) error { return w.executor.readdress(netip.MustParseAddr("10.77.0.12")) }, 20 * time.Second},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, uint64(i+1), wsdPath)
			for _, s := range []*site{w.executor, w.client} {
				w.wire.setWeather(s.port, tt.weather)
			}
			scenario(t, w, tt.happens, tt.counting)
		})
	}
}

// down takes the link of a machine down for a while.
func down(w *world, s *site, d time.Duration) error {
	before := w.wire.weatherOf(s.port)
	w.wire.setWeather(s.port, Weather{Down: true})
	<-time.After(d)
	w.wire.setWeather(s.port, before)
	return nil
}

// scenario works in a shell and copies a file while something happens.
func scenario(t *testing.T, w *world, happens func(*world) error, counting time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := openShell(t, w)
	lines, err := shell.count(counting)
	if err != nil {
		t.Fatal(err)
	}
	source, want := makeFile(t, w.client.home)
	began := time.Now()
	copied := make(chan error, 1)
	go func() { copied <- w.copy(ctx, source, ":copy") }() // ends with ctx
	if happens != nil {
		if err := w.moved(ctx, w.client.machine, fileSize/4); err != nil {
			t.Fatalf("the copy does not move: %v", err)
		}
		t.Logf("it happens after %v", time.Since(began))
		if err := happens(w); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-copied; err != nil {
		t.Errorf("copy: %v", err)
	} else if got := hashFile(t, filepath.Join(w.executor.home, "copy")); got != want {
		t.Error("the copy is another file")
	}
	t.Logf("64 MiB in %v; the executor connected %d times", time.Since(began), w.connections())
	if err := shell.counted(lines, patience-time.Since(began)); err != nil {
		t.Errorf("shell: %v", err)
	}
	if err := shell.ask(30 * time.Second); err != nil {
		t.Errorf("shell, afterwards: %v", err)
	}
	if err := shell.close(); err != nil {
		t.Errorf("shell: %v", err)
	}
	for name, s := range map[string]*site{"executor": w.executor, "client": w.client} {
		passed, lost, strays := w.wire.counts(s.port)
		t.Logf("%s: %d packets passed, %d were lost, %d had nowhere to go", name, passed, lost, strays)
	}
}

// copy copies between the client and the executor.
func (w *world) copy(ctx context.Context, from, to string) error {
	cmd := w.reach("cp", "--quiet", from, to)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := w.client.do(cmd.Start); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return errors.Join(err, errors.New(tail(stderr.String(), 1000)))
	}
	return nil
}

// makeFile makes a file of fileSize by chance and returns its hash.
func makeFile(t *testing.T, dir string) (string, [sha256.Size]byte) {
	t.Helper()
	name := filepath.Join(dir, "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, io.LimitReader(rand.NewChaCha8([32]byte{1}), fileSize)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name, hashFile(t, name)
}

func hashFile(t *testing.T, name string) [sha256.Size]byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Error(err)
		return [sha256.Size]byte{}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Error(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
