//go:build race

package main

// raceEnabled: scripts run this binary, which looks for races.
const raceEnabled = true
