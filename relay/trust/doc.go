// Package trust keeps in files whom a relay's two ends believe: their own identity,
// the executors that a harness knows, the harnesses that an executor admits. The
// relay's operator has no say in any of it.
//
//	identity         one line of JSON, the secret keys; mode 0600, in a directory of 0700
//	known executors  HOST[:PORT][/PREFIX]/ENVIRONMENT FINGERPRINT [comment], as ssh's known_hosts
//	authorized keys  FINGERPRINT [comment]
//
// In the latter two, empty lines and lines that begin with # are comments. A
// fingerprint is what seal.Fingerprint writes. A line that is none of these makes the
// whole file unusable: passing over it could mean to trust a key that a person wanted
// refused.
//
// Everything is safe for concurrent use, by several processes too. Limits are in
// limits.go.
package trust
