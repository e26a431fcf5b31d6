package seal

import (
	"crypto/mlkem"

	"github.com/flynn/noise"
)

// Suite is how a public key's JSON names the suite.
const Suite = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256"

// protocolName is the name that is hashed. It says 25519 where Suite says X25519.
const protocolName = "Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256"

// Sizes, in bytes.
const (
	dhSize    = 32
	kemSize   = mlkem.EncapsulationKeySize768
	kemCipher = mlkem.CiphertextSize768
	hashSize  = 32
	// Overhead is what a record is longer than its plaintext.
	Overhead = 16
	// MaxPlaintext bounds the plaintext of a record. To seal more is misuse, a longer
	// record is refused unopened.
	MaxPlaintext = 61_440
	// MaxRecord bounds a record.
	MaxRecord = MaxPlaintext + Overhead
	// MaxMessage bounds a handshake message. A longer one is neither written nor read.
	MaxMessage = 65_535
	// Message1Overhead is the length of message 1 without its payload.
	Message1Overhead = kemCipher + dhSize + kemSize + (dhSize + Overhead) + (kemSize + Overhead) + Overhead
	// Message2Overhead is the length of message 2 without its payload.
	Message2Overhead = kemCipher + (kemCipher + Overhead) + dhSize + kemSize + Overhead
)

// suite is what flynn/noise knows of the protocol. ML-KEM it does not.
var suite = noise.NewCipherSuite(noise.DH25519, noise.CipherAESGCM, noise.HashSHA256)
