package sandbox

import (
	"fmt"
	"os"
	"runtime"
)

// The hidden words, as the first argument of this binary.
const (
	helperWord = "sandbox-helper" // confine yourself, then become the program
	serveWord  = "sandbox-serve"  // you are confined: serve a role
)

// Roles of our own.
const (
	roleNothing = "nothing" // end at once
	roleProbe   = "probe"   // try what Probe wants to know
)

// exitHelper is the exit status of a helper that could not do its work.
const exitHelper = 127

func init() {
	// What a thread does to itself is inherited by the program only from the thread
	// that executes it, and the parent-death signal belongs to the first thread.
	if isWord(helperWord) {
		runtime.LockOSThread()
	}
}

func isWord(word string) bool { return len(os.Args) > 1 && os.Args[1] == word }

// Main is to be called first thing in main, before anything opens a file or starts a
// goroutine that matters. In a process that was started as a helper it does not
// return. A role is what such a process does once it is confined, and ends with; its
// error is printed and makes the exit status 1.
func Main(roles map[string]func() error) {
	switch {
	case isWord(helperWord):
		runHelper()
		os.Exit(exitHelper)
	case isWord(serveWord) && len(os.Args) == 3:
		role := roles[os.Args[2]]
		switch os.Args[2] {
		case roleNothing:
			role = func() error { return nil }
		case roleProbe:
			role = probeInside
		}
		if role == nil {
			fmt.Fprintf(os.Stderr, "sandbox: no role %q\n", os.Args[2])
			os.Exit(exitHelper)
		}
		if err := role(); err != nil {
			fmt.Fprintf(os.Stderr, "sandbox: %s: %v\n", os.Args[2], err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}
