// Package openstate opens the state that a --state value names. It is apart from package
// rendezvous, which knows no engine, and from the engines, which know not each other.
package openstate
