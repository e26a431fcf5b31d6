// Package withheld says which names and mode bits a server may not bring to its client
// unless the user asks for them: names that make a program of the client's machine run
// code without being told to, and the bits of a mode that give somebody else's rights.
// Decision 13 (docs/decisions/0013-what-does-not-come-over.md) has the reasons.
//
// The functions are pure and safe for concurrent use.
package withheld
