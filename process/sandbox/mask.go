package sandbox

import "os"

// isMask reports whether info is that of a mask: an empty directory that stands, for
// as long as a sandbox needs it, where something must not be made. The sticky bit, of
// no use on a directory nobody can write, tells masks from directories of others. It
// may be one that a server which was killed has left.
func isMask(info os.FileInfo) bool {
	return info.Mode()&^0o555 == os.ModeDir|os.ModeSticky && ownedByMe(info)
}
