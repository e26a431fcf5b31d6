package disk_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/disk"
)

// SettleEnded leaves out long files that have not changed since the command began. The next
// Settle has them.
func TestSettleEndedLeavesWhatWasThere(t *testing.T) {
	began := time.Now()
	b := newBench(t, disk.Config{Watch: true})
	long := strings.Repeat("x", 3<<20)
	for name, text := range map[string]string{"long": long, "short": "x"} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(since time.Time, long bool) {
		t.Helper()
		if err := b.ws.SettleEnded(t.Context(), since); err != nil {
			t.Fatal(err)
		}
		_, err := b.tree.Entry(t.Context(), disk.DefaultMount+"/short")
		if err != nil {
			t.Error(err)
		}
		if _, err = b.tree.Entry(t.Context(), disk.DefaultMount+"/long"); (err == nil) != long {
			t.Errorf("the long file: %v", err)
		}
	}
	want(time.Now().Add(time.Hour), false)
	want(time.Now().Add(time.Hour), false)
	want(began, true)
}

// SettleEnded leaves out long files that somebody is writing, and nothing else. The next
// Settle has them.
func TestSettleEndedLeavesWhatIsWritten(t *testing.T) {
	began := time.Now()
	b := newBench(t, disk.Config{Watch: true})
	long := strings.Repeat("x", 3<<20)
	writes := func(name, text string) *os.File {
		t.Helper()
		f, err := os.Create(b.path(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return f
	}
	writes("log", "line")
	writes("done", long).Close()
	big := writes("big", long)
	if err := b.ws.SettleEnded(t.Context(), began); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		_, err := b.tree.Entry(t.Context(), disk.DefaultMount+"/"+name)
		return err == nil
	}
	if !has("log") || !has("done") {
		t.Error("what nobody writes, or is short, is left out")
	}
	if has("big") {
		t.Error("what somebody writes is waited for")
	}
	b.settle() // all of it, whoever writes
	if !has("big") {
		t.Error("it is forgotten")
	}
	if _, err := big.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	if err := b.ws.SettleEnded(t.Context(), began); err != nil {
		t.Fatal(err)
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.ws.SettleEnded(t.Context(), began); err != nil {
		t.Fatal(err)
	}
	e, err := b.tree.Entry(t.Context(), disk.DefaultMount+"/big")
	if err != nil || e.Size != int64(len(long)+4) {
		t.Errorf("%+v, %v", e.Size, err)
	}
}
