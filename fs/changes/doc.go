// Package changes keeps two trees in step: what one end of a synchronisation does for
// the other, whatever carries it. It knows no wire.
//
// A Peer is an end as the other sees it: it says how far it is (Watermarks), takes and
// gives entries (Push, FetchChanges) and the content that they name by hash (HasObjects,
// PushObjects, FetchObjects), or both in one (packs). A Server is the Peer of a
// Workspace of this machine.
package changes
