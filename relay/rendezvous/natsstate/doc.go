// Package natsstate keeps the state of relays in a NATS cluster, so that several relay
// nodes share it: one JetStream KV bucket, whose keys are BUCKET.KEY.
//
// # What is promised
//
// A write that returned is on a majority of the replicas. Every call sees all writes
// that were done before it, whichever server answers; a part of the cluster that is cut
// off from the majority answers with [ErrUnavailable] and never with an old value. For
// that, a read costs a small write (a "mark"), shared by all reads of a bucket that wait
// at the same time; mark.go says how. A revision is the sequence of the stream: it only
// grows, and an entry that is deleted and made again never has one that it had before.
// A revision that was never returned must not be made up by the caller.
//
// Of several deletes with one revision a single one succeeds. A write that gets no
// answer is repeated under the same id, which the servers know again; so a server may
// die in the middle of it. If a call ends without an answer all the same, whether the
// write was done is not known.
//
// # When servers fail
//
// The connection is kept for ever: it is made anew with another server of the cluster
// when its server is silent for 9 seconds, and left when a server gets nothing done for
// one that may. A server that is stopped in order hands its work over at once. One that
// dies without a word is replaced by an election of 4 to 9 seconds; calls that meet one
// wait as long as Config.Timeout allows and then fail.
//
// # Deletions
//
// NATS remembers a deleted key by a message, which it drops after ten minutes. NATS 2.11
// or later is needed, for that and for reads of several keys at once.
//
// A [State] is safe for concurrent use. What is configured as a [Secret] is never logged
// and is in no error.
package natsstate
