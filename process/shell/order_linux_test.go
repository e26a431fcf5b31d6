package shell_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/process/shell"
)

// Events of both streams are in the order in which a command printed, for as long as all that
// it has printed before was read, whoever follows.
func TestF10EventsInOrder(t *testing.T) {
	t.Parallel()
	f := open(t)
	path := filepath.Join(f.dir, "lines")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	id, events := f.exec(shell.Request{Command: `while read first; do
	case $first in
	o) echo o; echo e >&2;;
	e) echo e >&2; echo o;;
	esac
done < lines`})
	want, got := "", ""
	for range 300 {
		text := []string{"o\ne\n", "e\no\n"}[rand.IntN(2)]
		want += text
		if _, err := lines.WriteString(text[:2]); err != nil {
			t.Fatal(err)
		}
		for len(got) < len(want) {
			got += string(next(t, events).Data)
		}
		if got != want {
			t.Fatalf("it ends with %q, want %q", got[len(got)-4:], text)
		}
	}
	events.Close()
	logged, all := f.get(id, shell.After{}), ""
	for len(all) < len(want) {
		all += string(next(t, logged).Data)
	}
	if all != want {
		t.Error("the log has another order")
	}
	if err := f.KillExec(t.Context(), id, "SIGKILL"); err != nil {
		t.Error(err)
	}
}
