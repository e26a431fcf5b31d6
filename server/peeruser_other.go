//go:build !linux

package server

import (
	"errors"
	"net"
)

// knowsPeers says that this system does not tell whose process is at the other end of a
// TCP connection.
const knowsPeers = false

func peerUser(net.Conn) (int, error) { return 0, errors.ErrUnsupported }
