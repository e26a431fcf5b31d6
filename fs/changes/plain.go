package changes

import (
	"context"
	"iter"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Plain is the Workspace of a tree that stands for nothing else: no disk is to be settled.
func Plain(forest *tree.Forest, t *tree.Tree) Workspace { return plain{forest, t} }

type plain struct {
	forest *tree.Forest
	tree   *tree.Tree
}

func (p plain) Forest() *tree.Forest { return p.forest }

func (p plain) Tree() *tree.Tree { return p.tree }

func (p plain) Settle(context.Context) error { return nil }

func (p plain) Skipped(func(path string) bool) []Skipped { return nil }

func (p plain) Unread() []tree.Entry { return nil }

// NotUTF8 does not look: the tree has such names only from others.
func (p plain) NotUTF8(func(path string) bool) (Skipped, bool) { return Skipped{}, false }

// Stirred is of a disk that never changes.
func (p plain) Stirred() <-chan struct{} { return make(chan struct{}) }

func (p plain) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (Applied, error) {
	var done Applied
	rev, err := p.tree.Update(ctx, func(e *tree.Edit) error {
		done = Applied{}
		for entry, err := range entries(e) {
			if err != nil {
				return err
			}
			changed, err := e.Apply(&entry, how)
			if err != nil {
				return err
			}
			done.Entries++
			if changed {
				done.Changed++
			}
		}
		if also == nil {
			return nil
		}
		return also(e)
	})
	done.Rev = rev
	return done, err
}
