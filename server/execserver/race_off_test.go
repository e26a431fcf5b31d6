//go:build !race

package execserver_test

// memoryFactor is 1 without the race detector.
const memoryFactor = 1

// fewer is 1 without the race detector.
const fewer = 1
