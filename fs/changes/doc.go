// Package changes keeps two trees in step: what one end of a synchronisation does for
// the other, whatever carries it. It knows no wire.
//
// A Peer is an end as the other sees it: it says how far it is (Watermarks), takes and
// gives entries (Push, FetchChanges) and the content that they name by hash (HasObjects,
// PushObjects, FetchObjects), or both in one (packs). A Server is the Peer of a
// Workspace of this machine. Package fs/changes/pack is the format of packs.
//
// # What holds
//
// A push is applied as a whole or not at all, in one update of the tree together with the
// cursor that it acknowledges. So the stored cursor never covers what was not applied, and
// never goes back. Pushes are taken in beside each other and applied one after the other.
//
// What a peer pushes and the tree has already changes nothing, so it does not go to and
// fro. It is compared without times, with modes. Otherwise who is applied last stays, for
// each path. A delete that is only sent again does not count as later, see replay.go and
// unseen.go.
//
// Paths of a peer have no links in them. Nothing is written through a link that has come
// to be where the peer has a directory.
//
// Paths and targets of links stand for names of any bytes (package rawname). Peers that do not
// know that have the server's PlainNames.
//
// What was offered can be fetched: objects are kept from collection while they are asked
// about, for tree.MinUnseen at least, and while a stream or a pack of them is open.
//
// # Cost
//
// Streams are read on demand, and hold nothing of the store between two reads: a peer that
// never reads holds up nobody. A change stream keeps its list of paths, a push its entries
// in a file beyond a mebibyte, objects are in memory a few at a time. A Server is safe for
// concurrent use and owns no goroutine. What a peer can make it keep is in limits.go.
//
// # Errors
//
// Code, Name and Path are what a wire says of an error. A Code is that of a filesystem
// (tree.Code), EUNKNOWN_HASH, EPROTOCOL or EPACK_PROTOCOL.
package changes
