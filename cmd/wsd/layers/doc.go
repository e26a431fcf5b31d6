// Package layers holds the rules of the repository as tests: which package may
// import which, one package comment each, no path or host of the machine it was
// written on, and release binaries that are static and small. It has no code of
// its own.
package layers
