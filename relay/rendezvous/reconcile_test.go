package rendezvous

import (
	"testing"
	"time"
)

// What the State says of an executor that has left is corrected, though it was right when
// it was looked at last: the State may have been away when the executor left.
func TestReconcileAfterAnExecutorHasLeft(t *testing.T) {
	d := newDesk(t)
	n := d.node
	e := &executor{node: n, env: "lab", registration: "r", ticket: &ticket{env: "lab", registration: "r"}, began: time.Now()}
	d.put(BucketRegistrations, e.env, registration{ID: e.registration, Key: d.key, Made: e.began})
	n.executors[e.env] = e
	if err := n.claim(t.Context(), e); err != nil {
		t.Fatal(err)
	}
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
