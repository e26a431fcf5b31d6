package main

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's directory, seen from this test.
const root = "../.."

// The committed code is what the committed schemas generate.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--check", root}, &out, io.Discard); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
}

// copied makes a module of our go.mod and proto/ in a directory of its own.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "proto/wsd/relay/v1/relay.proto", "proto/relayv1/relay.pb.go"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := write(filepath.Join(dir, name), data); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheckFindsStaleCode(t *testing.T) {
	dir := copied(t)
	generated := filepath.Join(dir, "proto/relayv1/relay.pb.go")
	want, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(generated, []byte("package relayv1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"--check", dir}, &out, io.Discard); !errors.Is(err, errDiffers) {
		t.Errorf("stale code: %v, want %v", err, errDiffers)
	}
	if got := out.String(); got != "proto/relayv1/relay.pb.go\n" {
		t.Errorf("listed %q", got)
	}
	if err := run(t.Context(), []string{dir}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(generated); err != nil || string(got) != string(want) {
		t.Errorf("wrote %d bytes, %v; want the %d committed ones", len(got), err, len(want))
	}
}

// A schema may import another, and the standard ones.
func TestImports(t *testing.T) {
	dir := copied(t)
	schema := `syntax = "proto3";
package wsd.test.v1;
import "google/protobuf/timestamp.proto";
import "wsd/relay/v1/relay.proto";
option go_package = "github.com/wsd-dev/wsd/proto/testv1;testv1";
message Seen { google.protobuf.Timestamp at = 1; wsd.relay.v1.RelayMessageFrame frame = 2; }
`
	if err := write(filepath.Join(dir, "proto/wsd/test/v1/test.proto"), []byte(schema)); err != nil {
		t.Fatal(err)
	}
	files, err := generate(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"proto/relayv1/relay.pb.go", "proto/testv1/test.pb.go"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("generated %v, want %v", got, want)
	}
}

func TestBadSchemas(t *testing.T) {
	if _, err := generate(t.Context(), t.TempDir()); err == nil {
		t.Error("a directory without proto/ passes")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "proto/bad.proto")
	if err := write(path, []byte("syntax = \"proto3\";\nmessage M { uint32 a = 1; uint32 b = 1; }\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := generate(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "bad.proto:2") {
		t.Errorf("two fields with one number: %v, want an error that names the line", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := generate(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no schema") {
		t.Errorf("no schema: %v", err)
	}
}
