// Package handoff says which goroutine sends and which one reads, so that a small message
// wakes no other. It moves no bytes itself.
package handoff
