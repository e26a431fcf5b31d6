// Package crash kills a wsd that serves a workspace, at any instant, again and again,
// while it takes pushes, runs commands, looks at its directory and collects garbage; and
// checks each time that its store and its directory are whole and have what it had
// acknowledged. `make e2e` runs it.
package crash
