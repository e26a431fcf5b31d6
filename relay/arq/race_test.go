//go:build race

package arq

// The race detector makes these tests ten times slower, and has little to find in them.
const raceEnabled = true
