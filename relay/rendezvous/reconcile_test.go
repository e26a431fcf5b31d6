package rendezvous

import (
	"context"
	"testing"
	"time"
)

// claimed returns a node and an executor that is attached to it.
func claimed(t *testing.T) (*Node, *executor) {
	t.Helper()
	d := newDesk(t)
	n := d.node
	e := &executor{node: n, env: "lab", registration: "r", ticket: &ticket{env: "lab", registration: "r"}, began: time.Now()}
	d.put(BucketRegistrations, e.env, registration{ID: e.registration, Key: d.key, Made: e.began})
	n.executors[e.env] = e
	if err := n.claim(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return n, e
}

// What the State says of an executor that has left is corrected, though it was right when
// it was looked at last: the State may have been away when the executor left.
func TestReconcileAfterAnExecutorHasLeft(t *testing.T) {
	n, e := claimed(t)
	said := func(want string) {
		t.Helper()
		if err := n.reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := n.registration(t.Context(), e.env); err != nil || r.Node != want {
			t.Errorf("the executor is said to be at %q, %v; want %q", r.Node, err, want)
		}
	}
	said(n.id)
	delete(n.executors, e.env)
	said("")
	said("")
}

// An earlyState makes something happen before a list is read.
type earlyState struct {
	State
	before func()
}

func (s *earlyState) List(ctx context.Context, bucket Bucket) ([]Entry, error) {
	s.before()
	return s.State.List(ctx, bucket)
}

// An executor that says goodbye while a node compares stays gone, and its place is free at
// once.
func TestReconcileDuringAGoodbye(t *testing.T) {
	for name, meet := range map[string]func(n *Node, leave, write, reconcile func()){
		"before the list is read": func(n *Node, leave, write, reconcile func()) {
			n.state = &earlyState{n.state, func() { leave(); write() }}
			reconcile()
		},
		"after the list was read": func(n *Node, leave, write, reconcile func()) {
			n.state = &slowState{n.state, func() { leave(); write() }}
			reconcile()
		},
		"written after the node has compared": func(_ *Node, leave, write, reconcile func()) {
			leave()
			reconcile()
			write()
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, e := claimed(t)
			leave := func() { delete(n.executors, e.env) }
			write := func() {
				if err := n.disclaim(t.Context(), e.env, e.registration, n.id, true); err != nil {
					t.Error(err)
				}
			}
			reconcile := func() {
				if err := n.reconcile(t.Context()); err != nil {
					t.Error(err)
				}
			}
			meet(n, leave, write, reconcile)
			r, err := n.registration(t.Context(), e.env)
			if err != nil {
				t.Fatal(err)
			}
			if r.Node != "" || !r.Ended {
				t.Errorf("the executor is said to be at %q, ended %v", r.Node, r.Ended)
			}
		})
	}
}
