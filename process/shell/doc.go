// Package shell runs commands whose output is durable: every event is in a log before
// anybody sees it, so that a run can be followed from any point, also after its client
// or the server was gone. It knows no wire.
package shell
