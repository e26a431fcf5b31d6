// Package ignore tells which paths the .gitignore files of a tree leave out, by the
// rules of gitignore(5): the last pattern that matches decides, files nearer to a path
// count after those farther up, and nothing below a directory that is left out can be
// brought back.
package ignore
