//go:build !race

package changes_test

const raceEnabled = false
