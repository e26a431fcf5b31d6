// Package seal makes the two ends of a relay stream certain of each other, and what
// they say unreadable and unalterable for everybody in between: the hybrid IK
// handshake of Noise and the records after it, over byte slices. It knows no socket,
// no frame and no registry.
//
// The protocol is Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256:
//
//	<- s
//	...
//	-> skem, e, es, s, ss       message 1, with the harness's authorization
//	<- ekem, skem, e, ee, se    message 2, empty or a refusal
//
// The harness is the initiator and knows the executor's static keys before; the
// executor learns the harness's from message 1. Every static and every ephemeral key
// is a pair: one of X25519, one of ML-KEM-768. Breaking a session takes breaking both.
// The tokens e and s send both keys of the pair; skem and ekem encapsulate to the
// peer's static and ephemeral ML-KEM key. Cipher, hash, Diffie-Hellman and the cipher
// states of the records are those of flynn/noise, ML-KEM and HKDF those of the standard
// library.
//
// Invariants:
//
//   - An Initiator and a Responder make one handshake and are then spent, whether it
//     came to a Transport or not. What is called out of turn is a MisuseError.
//   - A nonce is used once. Sealer and Opener are told the number of each record, take
//     only the next one, and refuse at the end of the numbers.
//   - A record that does not authenticate changes nothing: the true one with its number
//     can still be opened.
//   - Nothing that holds a secret prints it, with fmt or slog.
//
// Initiator and Responder belong to one goroutine; everything else here is safe for
// concurrent use. Limits: a handshake message has at most MaxMessage bytes, a record at
// most MaxPlaintext.
package seal
