//go:build !race

package execserver_test

// memoryFactor is 1 without the race detector.
const memoryFactor = 1
