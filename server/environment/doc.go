// Package environment describes the machine that a server runs on: the methods
// environment/info and environment/status, and the same object for the answer to
// initialize.
//
// A Service is made once per server and bound on every connection. What it says
// is settled when it is made, apart from the status; it is safe for concurrent
// use. The capabilities it announces follow from the methods of the server's
// table, so that it never offers what is not there.
package environment
