package tree_test

import (
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/fs/tree/treetest"
)

func TestMemory(t *testing.T) {
	open := func(testing.TB) tree.Store { return tree.NewMemory() }
	t.Run("Rows", func(t *testing.T) { treetest.Rows(t, open) })
	treetest.Test(t, open)
}
