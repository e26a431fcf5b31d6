// Package endurance runs the wsd program long and hard and looks at it from outside:
// what it leaves behind after thousands of commands, what a reader that stalls costs,
// what hostile messages do to it. Everything is bounded in count and time.
//
// It has tests only, behind the build tag e2e, run by `make e2e` on the wsd that WSD_BIN
// names, else on one they build. They read /proc, so they need Linux.
package endurance
