package disk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Directory finds which directory a store has for a path of a tree, and the path of the
// tree that the directory stands for; "" when there is none.
func Directory(ctx context.Context, t *tree.Tree, path string) (dir, mount string, err error) {
	err = t.View(ctx, func(tx tree.Tx) error {
		rows, err := rowsOf(tx)
		for mount = path; err == nil; mount = mount[:max(strings.LastIndexByte(mount, '/'), 1)] {
			var root Root
			if root, err = rows.DiskRoot(t.Name(), mount); err != nil {
				break
			}
			if root.ID != 0 {
				var state rootState
				if err := json.Unmarshal(root.State, &state); err != nil {
					return fmt.Errorf("%w: the row of the workspace's directory: %w", tree.ErrDamaged, err)
				}
				dir = state.Dir
				return nil
			}
			if mount == "/" {
				mount = ""
				return nil
			}
		}
		return err
	})
	return dir, mount, err
}

// Identity implements changes.Identifier.
func (w *Workspace) Identity(path string) string {
	rel, below := w.where(path)
	if !below || rel == "" {
		return ""
	}
	root, _, err := w.openRoot()
	if err != nil {
		return ""
	}
	defer closeFD(root)
	st, err := statAt(root, rel)
	if err != nil || st.kind != tree.KindDir {
		return ""
	}
	return fmt.Sprintf("%x-%x", st.ino, st.btime)
}

// Files counts the files and links that a store knows to be in the directory that stands for a mount of
// a tree. It leaves out files that are still to be written there.
func Files(ctx context.Context, t *tree.Tree, mount string) (n int, err error) {
	err = t.View(ctx, func(tx tree.Tx) error {
		n = 0
		rows, err := rowsOf(tx)
		if err != nil {
			return err
		}
		root, err := rows.DiskRoot(t.Name(), mount)
		if err != nil || root.ID == 0 {
			return err
		}
		return rows.DiskStats(root.ID, func(_ string, b []byte) error {
			s, err := decodeStat(b)
			if err == nil && s.kind != tree.KindDir {
				n++
			}
			return err
		})
	})
	return n, err
}
