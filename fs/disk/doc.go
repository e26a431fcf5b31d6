// Package disk keeps a directory in step with a tree.
package disk
