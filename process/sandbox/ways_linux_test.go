package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A request that ends while this machine is being tried does not have the next one try it
// again, and hears why it has no answer.
func TestTriesAreOfTheEnforcer(t *testing.T) {
	e := enforcer(t, Config{})
	var q question
	var tries atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	try := func(ctx context.Context) *attempt {
		tries.Add(1)
		close(begun)
		<-goOn
		return &attempt{way: wayRoot, err: ctx.Err()}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the connection is gone")
	ended := make(chan *attempt, 1)
	go func() { ended <- e.tryOnce(ctx, &q, try) }() // ends with cancel
	<-begun
	cancel(gone)
	if got := <-ended; got.ok() || !errors.Is(got.err, gone) || got.reason != gone.Error() {
		t.Errorf("a request that ended got %+v", got)
	}
	close(goOn)
	for range 3 {
		if got := e.tryOnce(t.Context(), &q, try); got.way != wayRoot || got.err != nil {
			t.Errorf("a later request got %+v", got)
		}
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("tried %d times", n)
	}
}

// Requests that end while this machine is being tried leave no mount in the mount namespace
// of this program.
func TestMountsAreOfTheHelper(t *testing.T) {
	mounts := func() int {
		t.Helper()
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}
	before := mounts()
	p, err := Resolve(policy(at("root", "read")), Context{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e := New(Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		if pl, masks, w, err := e.planFor(ctx, p); err == nil {
			pl.Role = roleNothing
			if h, err := e.start(t.Context(), pl, masks, w, nil); err == nil {
				_ = h.finish()
			}
		}
		cancel()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := mounts(); after != before {
		t.Errorf("%d mounts before, %d after: the rest is to be unmounted by hand", before, after)
	}
}

// A way that this machine refuses costs no descriptors, however often it is tried.
func TestRefusedWaysCostNothing(t *testing.T) {
	e := enforcer(t, Config{})
	pl := &plan{Mechanism: mechanismNamespaces, Base: Read}
	pipes := func() (n int) {
		t.Helper()
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
				n++
			}
		}
		return n
	}
	before := pipes()
	var err error
	for range 5 {
		err = e.try(t.Context(), pl, wayUser)
	}
	if after := pipes(); after > before {
		t.Errorf("%d pipes more after five tries that ended with: %v", after-before, err)
	}
}
