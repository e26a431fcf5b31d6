package server

import "syscall"

// restrictSocket gives a socket that is not bound yet the mode its file will have, so
// that there is no moment in which others could connect.
func restrictSocket(fd int) {
	_ = syscall.Fchmod(fd, socketMode) // listenUnix changes the file's mode in any case
}
