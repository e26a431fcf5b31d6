// Package eventlogtest has the tests that every eventlog.Store and every kind of
// eventlog.Log must pass, and a Store in memory.
package eventlogtest
