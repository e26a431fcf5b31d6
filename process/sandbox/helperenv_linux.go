//go:build !race

package sandbox

// helperEnv is in the environment of every helper.
var helperEnv []string
