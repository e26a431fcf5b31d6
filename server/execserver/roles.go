package execserver

import "github.com/wsd-dev/wsd/fs"

// Roles are what a program with a server of this package hands to sandbox.Main: the
// helper that is confined and serves fs/* to the server over stdin and stdout.
func Roles() map[string]func() error {
	return map[string]func() error{"fs": fs.ServeConfined}
}
