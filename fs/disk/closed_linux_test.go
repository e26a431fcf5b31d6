package disk_test

import (
	"os"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
)

// SettleClosed leaves out long files that somebody is writing, and nothing else. The next
// Settle has them.
func TestSettleClosedLeavesWhatIsWritten(t *testing.T) {
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
	if err := b.ws.SettleClosed(t.Context()); err != nil {
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
	if err := b.ws.SettleClosed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.ws.SettleClosed(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := b.tree.Entry(t.Context(), disk.DefaultMount+"/big")
	if err != nil || e.Size != int64(len(long)+4) {
		t.Errorf("%+v, %v", e.Size, err)
	}
}
