package seal

import (
	"crypto/mlkem"

	"github.com/flynn/noise"
)

// A source is where a handshake takes what must be fresh.
type source struct {
	dh          func() (noise.DHKey, error)
	kem         func() (*mlkem.DecapsulationKey768, error)
	encapsulate func(*mlkem.EncapsulationKey768) (shared, ciphertext []byte)
}

// fresh is the source of every handshake but those of tests.
func fresh() source {
	return source{
		dh:          func() (noise.DHKey, error) { return suite.GenerateKeypair(nil) },
		kem:         mlkem.GenerateKey768,
		encapsulate: (*mlkem.EncapsulationKey768).Encapsulate,
	}
}
