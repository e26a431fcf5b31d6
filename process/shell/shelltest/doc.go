// Package shelltest has the tests that every shell.Store must pass, and a Store in memory.
package shelltest
