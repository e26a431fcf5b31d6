// Package workspace puts a workspace together: the store, the tree in it, the directory
// that the tree stands for, who synchronises them, the durable runs, and the place where
// commands see the directory. It opens them in that order and closes them in the other
// one, so that whatever a run has written is in the store before the store is closed.
//
// A workspace is open in one process at a time (sqlite.ErrInUse). While it is, its own
// housekeeping collects garbage and gives room back to the file system.
package workspace
