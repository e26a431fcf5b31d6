//go:build !linux

package process

// unignoreOthers has nothing to do: what else is ignored stays so in children.
func unignoreOthers() {}
