package relaytest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay/frame"
)

// Nothing that the relay routes shows what was said: not as it is, not in base64, as
// JSON carries files, and not the methods that were called.
func TestNothingRoutedIsReadable(t *testing.T) {
	for _, profile := range bothProfiles {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testReadable(t, profile) })
		})
	}
}

func testReadable(t *testing.T, profile frame.Profile) {
	var mu sync.Mutex
	var routed []byte
	w := newWorld(t, 41)
	defer w.close()
	w.record = func(msg []byte) {
		mu.Lock()
		defer mu.Unlock()
		routed = append(routed, msg...)
	}
	w.serverExecutor()
	settle()
	c := w.client(w.harness("harness", profile))
	marker := strings.Repeat("a known plaintext, ", 20_000)
	name := filepath.Join(t.TempDir(), "known-name")
	if _, err := c.WriteFile(t.Context(), name, []byte(marker), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadFile(t.Context(), name); err != nil || string(got) != marker {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"/bin/true", "10", "10ms", "known-argument"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(routed) < 2*2*len(marker) { // there and back, each seen at both ends
		t.Fatalf("only %d bytes were recorded", len(routed))
	}
	// Each is long enough not to be there by chance.
	readable := [][]byte{
		[]byte("known plain"), []byte("known-name"), []byte("known-argument"), []byte("process/start"), []byte("fs/write"), []byte(`"method"`), []byte(`"params"`),
		[]byte(hex.EncodeToString([]byte("known plain"))), []byte(w.harnessToken), []byte(w.executorToken),
	}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(marker[shift : shift+30]))
		readable = append(readable, []byte(encoded))
	}
	for _, text := range readable {
		if bytes.Contains(routed, text) {
			t.Errorf("%q can be read", text)
		}
	}
	if !bytes.Contains(routed, []byte(profile.Field())) || !bytes.Contains(routed, []byte{8, frame.Version}) {
		t.Error("what frames say openly is not there either: the wrong bytes were recorded")
	}
}
