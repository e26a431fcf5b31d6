// Package ignore tells which paths are left out by the rules of gitignore(5), byte by byte as
// git reads them: the last pattern that matches decides, files nearer to a path count after
// those farther up, and nothing below a directory that is left out can be brought back.
//
// Rules are those of the .gitignore files of a directory on disk. A Matcher has rules as
// texts, of a tree that need not be on disk.
package ignore
