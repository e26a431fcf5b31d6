// Package watch tells of changes in directories and in trees of them.
//
// A Hub owns one watch of the system's (an inotify instance on Linux) for all who
// want to know, while anybody does. A Sub adds single directories and takes what
// happens in them as it came. A Tree is a directory with all below it: what is made
// in it is watched too, what was in a new directory before it could be watched is
// found by looking, and changes of one path within Window are told once.
//
// Whoever takes events too slowly loses them and is told that, once, as an overflow.
//
// All types are safe for concurrent use.
package watch
