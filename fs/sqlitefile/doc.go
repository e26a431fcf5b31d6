// Package sqlitefile is what all our SQLite files have in common: they are private to
// their owner, their schema comes from numbered migrations, a file of another program or
// of a later version is refused, and an error about a file says which one it is and what
// can be done.
package sqlitefile
