package main

import (
	"context"
	"io"
	"os"

	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/server/execserver"
)

func main() {
	sandbox.Main(execserver.Roles()) // does not return in a helper
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is wsd with its surroundings passed in; it returns the exit status. args are
// those after the program's name.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	return a.run(ctx, args)
}
