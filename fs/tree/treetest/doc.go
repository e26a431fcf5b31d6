// Package treetest has the tests that every store of package tree must pass: what its
// rows do, and the rules of a tree on top of them, against a model among others.
package treetest
