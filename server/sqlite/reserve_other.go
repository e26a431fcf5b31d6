//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// allocate is not to be had.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
