//go:build !race

package disk_test

// fewer is how much less of what takes long there is.
const fewer = 1
