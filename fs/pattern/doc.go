// Package pattern matches relative paths against glob patterns: *, ? and [a-z] within
// a name, {a,b} for alternatives, ** for any number of directories, a backslash
// before what is meant literally.
//
// Alternatives are multiplied out when a pattern is compiled, up to a limit, so that
// matching takes time in proportion to path and pattern whatever they are.
//
// Compiled patterns are immutable.
package pattern
