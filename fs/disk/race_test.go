//go:build race

package disk_test

// fewer is how much less of what takes long there is: the race detector slows all down.
const fewer = 4
