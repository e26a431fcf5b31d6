package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// errDiffers is what --check ends with when code is not that of its schema.
var errDiffers = errors.New("generated code differs from its schema; run `make proto`")

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("protogen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "write nothing, list the files that differ")
	if err := flags.Parse(args); err != nil {
		return err
	}
	module := "."
	if flags.NArg() > 0 {
		module = flags.Arg(0)
	}
	files, err := generate(ctx, module)
	if err != nil {
		return err
	}
	differs := false
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(module, filepath.FromSlash(name))
		have, err := os.ReadFile(path)
		if err == nil && bytes.Equal(have, files[name]) {
			continue
		}
		differs = true
		fmt.Fprintln(stdout, name)
		if *check {
			continue
		}
		if err := write(path, files[name]); err != nil {
			return err
		}
	}
	if *check && differs {
		return errDiffers
	}
	return nil
}

// write puts data into the file at path, and makes its directory if need be.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
