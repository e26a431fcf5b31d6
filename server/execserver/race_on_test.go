//go:build race

package execserver_test

// memoryFactor is by how much the race detector stretches the memory of a server: it
// keeps notes on every byte that is touched.
const memoryFactor = 4

// fewer is how much less of what cases want much of there is: the detector makes all of it
// ten times slower, and all of it is there without the detector.
const fewer = 4
