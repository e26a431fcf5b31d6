//go:build !linux

package process

import (
	"errors"
	"fmt"
)

// NewNamespace returns an ErrNoNamespace: only Linux has mount namespaces.
func NewNamespace(_, _ string) (*Namespace, error) {
	return nil, fmt.Errorf("%w: %w", ErrNoNamespace, errors.ErrUnsupported)
}
