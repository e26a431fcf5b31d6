//go:build race

package relaytest

// raceEnabled: the detector makes everything ten times slower, and the order of goroutines random.
const raceEnabled = true
