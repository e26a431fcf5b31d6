// Package logtest tests implementations of process.LogStore.
package logtest
