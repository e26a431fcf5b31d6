//go:build race

package sandbox

// helperEnv is in the environment of every helper. A binary that looks for races sleeps a
// second as it ends unless it is told not to, and helpers have nothing of our environment.
var helperEnv = []string{"GORACE=atexit_sleep_ms=0"}
