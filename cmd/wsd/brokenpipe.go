package main

import (
	"os/signal"
	"syscall"
)

// ignoreBrokenPipes makes a write to a closed stdout an error instead of this
// program's end, so that what runs at the server can be told.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
