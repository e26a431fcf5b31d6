package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Finding is something that is not as it should be.
type Finding struct {
	Check string // which one found it
	What  string // a line for a person
}

// The checks, in their order.
const (
	CheckStore   = "store"   // SQLite's own, and what must hold among the rows
	CheckContent = "content" // every chunk has the hash that it is named by
	CheckDisk    = "disk"    // the directory has what the tree says
)

// Check reads all of a store that is not in use and, if cfg has a Dir, all of the
// directory, and tells found what is wrong. Content and directory are not looked at when
// the rows are damaged. What a crash has left to be done is done first, as by Open. The
// error is that a check could not be made.
func Check(ctx context.Context, cfg Config, found func(Finding)) error {
	w, err := OpenStore(ctx, cfg)
	if err == nil {
		err = w.check(ctx, &cfg, found)
		err = errors.Join(err, w.Close())
	} else if isAny(err, sqlitefile.ErrDamaged) {
		return report(CheckStore, err, found)
	}
	return err
}

func (w *Workspace) check(ctx context.Context, cfg *Config, found func(Finding)) error {
	damaged := []error{sqlitefile.ErrDamaged, tree.ErrDamaged}
	if err := w.DB.Check(ctx); err != nil {
		if !isAny(err, damaged...) {
			return err
		}
		return report(CheckStore, err, found)
	}
	// First, since it finishes what a crash has left: content may have become files.
	var opened error
	if w.Dir != "" {
		opened = w.openDisk(ctx, cfg)
	}
	if _, err := w.Forest.Verify(ctx); err != nil {
		if !isAny(err, damaged...) {
			return fmt.Errorf("read the content: %w", err)
		}
		_ = report(CheckContent, err, found)
	}
	if w.Dir == "" {
		return nil
	}
	err := opened
	if err == nil {
		err = w.Disk.Check(ctx)
	}
	if isAny(err, disk.ErrDiffers, disk.ErrNoDirectory) {
		return report(CheckDisk, err, found)
	}
	return err
}

func isAny(err error, about ...error) bool {
	for _, a := range about {
		if errors.Is(err, a) {
			return true
		}
	}
	return false
}

// report tells of each line of an error, and returns nil: that is no failure of the check.
func report(check string, err error, found func(Finding)) error {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		found(Finding{check, line})
	}
	return nil
}
