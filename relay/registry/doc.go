// Package registry talks to an environment registry: the HTTP service that tells
// executors and harnesses of each other, and where they meet. It has the messages of
// its three operations, which the server side uses too, and the client of both ends.
//
// All operations are POSTs of JSON to
//
//	<base URL>/cloud/environment/<environment id>/<operation>
//
//	register  executor: publishes its key, gets a registration id and its rendezvous URL
//	connect   harness: gets a rendezvous URL, the executor's key, a one-time authorization
//	validate  executor: asks whether a harness's key and authorization belong together
//
// A Client may have several base URLs, those of the nodes of one relay. What cannot
// be reached is passed over; the one that answered last is asked first the next time.
// A status other than 2xx is a *StatusError, no answer at all an *UnreachableError, a
// 2xx that says nothing usable a *ResponseError, a login that cannot be read now a
// *LoginError; RetryRegister, RetryRenewal and RetryConnect say which of them pass,
// Delay how long to wait. The client itself never asks the same node twice.
//
// A Credential never leaves over what others could read: see its documentation for
// the rules on URLs. Nothing here prints a token, an authorization or a rendezvous
// URL, with fmt or slog; the URL is a credential too.
//
// Everything is safe for concurrent use. Limits are in limits.go.
package registry
