// Package openstate reads --state values and opens the state that they name. It is apart
// from package rendezvous, which knows no engine, and from the engines, which know not
// each other.
package openstate
