// Package objects keeps content in the files of one directory: what arrives before its
// place is known, and what has no place elsewhere.
//
// An object file is named by its number, in 16 lower-case hexadecimal digits. A number is
// never used twice. A [Place] is where content begins in such a file; how long it is, and
// which hash it has, the caller records. Content comes in four ways:
//
//   - A [Writer] writes content that arrives in order. The windows of a file that arrive
//     one after another become one object file with exactly the bytes of that file, which
//     [Dir.Take] moves to the file's place without a copy.
//   - [Dir.Pack] appends to a pack, an object file with much small content in it.
//   - [Dir.Make] makes an object file of what its caller puts into it: a clone of another file.
//   - [Dir.Adopt] moves a file in from elsewhere.
//
// Only [Dir.Remove] and [Dir.Take] make an object file go. Other names in the directory
// are strangers: they are neither read, listed nor removed.
package objects
