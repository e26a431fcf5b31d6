// Package rawname is how trees call names that are not UTF-8.
//
// A system lets a name have any bytes; paths in trees, and on the wire, are UTF-8. A byte of
// a name that is not part of a character stands in a tree as one character of U+10FE80 to
// U+10FEFF, private ones: the byte 0xE9 as U+10FEE9. A character of that range that a real
// name has stands as those of its four bytes, so that two names never have one form
// ([Encode]). [Decode] finds the bytes, and refuses a form that Encode never makes: it would
// be a second form of another name. Bytes below 0x80 have no other form than themselves: no
// form hides a slash, a NUL, "." or "..".
//
// Encode works on whole paths, since a slash is never part of a longer character, and keeps
// the order of names that are UTF-8.
package rawname
