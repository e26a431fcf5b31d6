// Package lineage tells whether two directories are one, or one is in the other, whatever
// their names: by their devices and inodes and those of the directories above them, also
// those that they have by other mounts. Two programs on one running machine can compare what
// it says; on another machine nothing is equal. Real gives a path without its links.
package lineage
