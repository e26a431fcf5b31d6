package main

import (
	"fmt"
	iofs "io/fs"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client/withheld"
)

// The flags that let over what a server could do harm with here.
const (
	flagAllowCode   = "allow-code"
	flagAllowSetuid = "allow-setuid"
)

// allowFlags are those of the commands that write here what a server has.
type allowFlags struct{ code, setuid bool }

func (f *allowFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.code, flagAllowCode, false, "let names come over from the server that make programs here run\ncode, such as .git/config, .git/hooks and .envrc")
	flags.BoolVar(&f.setuid, flagAllowSetuid, false, "let set-user-ID, set-group-ID and sticky bits come over")
}

const allowHelp = `What could do harm here does not come over from the server, and is named as
withheld: what makes programs run code by its name (.git/config, .git/hooks, .envrc,
.vscode and others) without --` + flagAllowCode + `, set-user-ID, set-group-ID and sticky bits
without --` + flagAllowSetuid + `.`

// withheldText says why something did not come over; bits are those of a mode, 0 for a name.
func withheldText(bits uint32) string {
	if bits == 0 {
		return "its name makes programs run code; --" + flagAllowCode + " lets it come over"
	}
	return fmt.Sprintf("the bits %04o of its mode; --%s lets them come over", bits, flagAllowSetuid)
}

// isCode reports whether something must not come over by its name. path is the
// one below dir.
func (f *allowFlags) isCode(dir, path string, mode iofs.FileMode) bool {
	kind := withheld.Other
	switch {
	case mode.IsDir():
		kind = withheld.Dir
	case mode&iofs.ModeSymlink != 0:
		kind = withheld.Link
	}
	return !f.code && withheld.Code(withheld.Below(dir, path), kind)
}

// modeOf is what of a server's mode comes over, and the bits that do not.
func (f *allowFlags) modeOf(mode iofs.FileMode) (iofs.FileMode, uint32) {
	bits := permissionBits(mode) & withheld.ModeBits
	if f.setuid || bits == 0 || mode&iofs.ModeSymlink != 0 {
		return mode, 0
	}
	return mode &^ (iofs.ModeSetuid | iofs.ModeSetgid | iofs.ModeSticky), bits
}
