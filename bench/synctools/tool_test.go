package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKnownFlags(t *testing.T) {
	for help, want := range map[string][]string{
		"  --max-delete LIMIT   stop": {"--max-delete=100%"},
		"  --max-deleted LIMIT":       nil,
		"":                            nil,
	} {
		if got := known(help); !slices.Equal(got, want) {
			t.Errorf("known(%q) = %q, want %q", help, got, want)
		}
	}
}

func TestTail(t *testing.T) {
	for out, want := range map[string]string{
		"":                   "",
		"one\n":              ": one",
		"1\r2\n\n3\n4\nlast": ": 3; 4; last",
	} {
		if got := tail(out); got != want {
			t.Errorf("tail(%q) = %q, want %q", out, got, want)
		}
	}
}

func TestOrderTurns(t *testing.T) {
	b := &bench{tools: []*tool{{name: "a"}, {name: "b"}, {name: "c"}}}
	var first []string
	for range 6 {
		order := b.order()
		if len(order) != 3 {
			t.Fatalf("%d tools", len(order))
		}
		first = append(first, order[0].name)
	}
	if got := strings.Join(first, ""); got != "bcabca" {
		t.Errorf("the first are %s", got)
	}
}

// A tool that did not get done because the run is over has not failed.
func TestFailed(t *testing.T) {
	b := &bench{}
	ctx, cancel := context.WithCancel(t.Context())
	b.failed(ctx, &tree{name: "files"}, "delete", &tool{name: "wsd"}, errBudget)
	cancel()
	b.failed(ctx, &tree{name: "files"}, "delete", &tool{name: "rsync"}, errBudget)
	if want := []string{"files, delete: wsd: " + errBudget.Error()}; !slices.Equal(b.notes, want) {
		t.Errorf("notes %q, want %q", b.notes, want)
	}
}

func TestOneFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.Symlink("from", to); err != nil {
		t.Fatal(err)
	}
	if _, err := oneFile(t.Context(), from, to, 7); err != nil {
		t.Errorf("a file that is there at once: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBudget)
	if _, err := oneFile(ctx, from, filepath.Join(dir, "never"), 8); !errors.Is(err, errBudget) {
		t.Errorf("a file that never comes: %v", err)
	}
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "say --wsd"},
		{[]string{"--wsd", "x", "--scale", "huge"}, "no scale"},
		{[]string{"--wsd", "x", "--only", "("}, "missing closing"},
		{[]string{"--wsd", filepath.Join(t.TempDir(), "none")}, "no such file"},
	} {
		var out strings.Builder
		if err := run(t.Context(), c.args, &out, &out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
