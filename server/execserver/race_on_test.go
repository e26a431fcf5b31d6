//go:build race

package execserver_test

// memoryFactor is by how much the race detector stretches the memory of a server: it
// keeps notes on every byte that is touched.
const memoryFactor = 4
