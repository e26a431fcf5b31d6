package process

import (
	"crypto/sha256"
	"fmt"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// digest tells requests to start a process apart. Requests that mean the same have
// the same digest, whatever the order and the spelling of their members; metadata,
// which changes nothing about the process, is left out.
func digest(params *protocol.StartParams) ([sha256.Size]byte, error) {
	canonical := *params
	canonical.Metadata = nil
	text, err := wire.Append(nil, &canonical) // sorts the keys of maps
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encode start request: %w", err)
	}
	return sha256.Sum256(text), nil
}
