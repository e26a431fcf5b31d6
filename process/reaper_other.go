//go:build !linux

package process

// inheritsOrphans: launchd is PID 1 here, and there are no subreapers.
func inheritsOrphans() bool { return false }

func zombieExists() bool { return false }

func isZombie(int) bool { return false }
