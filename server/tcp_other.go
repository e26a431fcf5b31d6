//go:build !linux

package server

import "net"

// tuneTCP does nothing: the socket buffers of these systems start small.
func tuneTCP(net.Conn) {}
