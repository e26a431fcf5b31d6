// Package pack is the format of change packs: entries of a change stream with the
// content that they name, in one piece (sync.md section 12). It knows no store.
//
// A pack is the gzip of records: a byte that says of which kind, the length of the
// payload as four bytes (big-endian), the payload.
//
//	1 header   first: JSON {"version":1,"generation":"…"}
//	2 object   a hash of 32 bytes and the bytes, before the first entry that needs them
//	3 entry    JSON, a protocol.ChangeEntry
//	4 footer   last: JSON, a Footer with the counts and a digest of the above
//
// An Encoder and a Decoder hold one record at a time and what gzip needs, whatever the
// pack's size. Each is for one goroutine.
package pack
