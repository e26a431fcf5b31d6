package tree_test

import (
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/fs/tree/treetest"
)

func TestMemory(t *testing.T) {
	treetest.Test(t, func(testing.TB) tree.Store { return tree.NewMemory() })
}
