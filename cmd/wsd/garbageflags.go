package main

import (
	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/server/workspace"
)

// garbageFlags bound the content that a store keeps although no file has it.
type garbageFlags struct {
	bytes byteSize
	share int
}

// The flags of garbageFlags.
const (
	flagGarbageBytes = "garbage-max-bytes"
	flagGarbageShare = "garbage-max-share"
)

func (f *garbageFlags) add(flags *pflag.FlagSet) {
	f.bytes = workspace.DefaultGarbageBytes
	flags.Var(&f.bytes, flagGarbageBytes, "keep at most `SIZE` of content that no file has any more; 0 for no\nbound but the hours of 'wsd gc'")
	flags.IntVar(&f.share, flagGarbageShare, workspace.DefaultGarbageShare, "keep at most `PERCENT` of the disk of such content; 0 for no bound")
}

func (f *garbageFlags) check() error {
	if f.share < 0 || f.share > 100 {
		return usagef("--"+flagGarbageShare+" 2 is the default", "invalid value %d for --%s: it is a percentage", f.share, flagGarbageShare)
	}
	return nil
}

// bounds are those of package workspace, in which 0 stands for the default.
func (f *garbageFlags) bounds() workspace.Garbage {
	g := workspace.Garbage{Bytes: int64(f.bytes), Share: f.share}
	if g.Bytes == 0 {
		g.Bytes = -1
	}
	if g.Share == 0 {
		g.Share = -1
	}
	return g
}
