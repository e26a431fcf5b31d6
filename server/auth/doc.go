// Package auth decides who may open a WebSocket, by the bearer token of the upgrade
// request: a capability token that is known to both ends, or a signed JWT.
//
// A Policy is made once, from the settings of the command line, reads its files then,
// and holds secrets only as a digest or as a Secret, which does not print. Comparisons
// take the same time wherever the difference is. Policies are safe for concurrent use.
package auth
