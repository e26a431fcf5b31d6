//go:build !linux

package raw

import (
	"errors"
	"io"
	"net"
)

func newQuickAcker(net.Conn) (io.Reader, error) {
	return nil, errors.New("quick acknowledgement needs Linux")
}
