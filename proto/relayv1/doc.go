// Package relayv1 is the Go code of the relay's frames, generated from
// proto/wsd/relay/v1/relay.proto. Change that file, and run `make proto`. Package
// relay/frame says which of these frames are valid.
package relayv1
