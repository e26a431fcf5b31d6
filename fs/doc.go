// Package fs serves the fs/* methods on the files of this host.
//
// One Service serves one connection: block streams, watches and sandbox helpers
// belong to it and end with Close. What the connections of a server share, the locks
// of conditional writes, the memory for large reads and the system's watches, is a
// Host.
//
// Order. Methods that only read run beside each other; those that change something,
// and fs/open, run alone, in the order of arrival, so that requests sent one after
// another without waiting behave as if each had waited. fs/glob, fs/grep and watches
// wait for changes before them and hold up nothing, except that changes wait until the
// watches before them are set up.
//
// Writes replace files as package atomicfile says; readers never see a mix. A
// condition (ifMatch, ifNoneMatch) is checked once the new content is ready, right
// before it takes its place, and holds against every other write through the same
// server; against other programs there remains the moment between the check and the
// rename.
//
// Nothing waits on a pipe or a device: what is not a regular file is refused, except
// that fs/writeFile writes to devices.
//
// Sandbox. A request with a sandbox object runs here when Sandboxer.Direct says that
// it may, and otherwise in a confined helper process that serves the same methods;
// there is one helper for each distinct sandbox of a connection. Without a Sandboxer
// such requests are refused.
package fs
