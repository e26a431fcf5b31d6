// Package statetest is the suite that every rendezvous.State must pass.
package statetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// Run runs the suite. open returns a State that is empty, and whose end the test that it
// is given sees to.
func Run(t *testing.T, open func(t *testing.T) rendezvous.State) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, rendezvous.State){
		"Missing":       missing,
		"RoundTrip":     roundTrip,
		"Create":        create,
		"Replace":       replace,
		"Revisions":     revisions,
		"Delete":        deletes,
		"Buckets":       buckets,
		"List":          list,
		"OneTakes":      oneTakes,
		"OneCreates":    oneCreates,
		"Counter":       counter,
		"EndedContext":  endedContext,
		"ValuesAreOwn":  valuesAreOwn,
		"AfterItsClose": afterClose,
		"Model":         model,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

const bucket = rendezvous.BucketTokens

func put(t *testing.T, s rendezvous.State, key, value string, revision uint64) uint64 {
	t.Helper()
	got, err := s.Put(t.Context(), bucket, key, []byte(value), revision)
	if err != nil {
		t.Fatalf("Put %s at %d: %v", key, revision, err)
	}
	if got == 0 || got == rendezvous.AnyRevision {
		t.Fatalf("Put %s gave the revision %d", key, got)
	}
	return got
}

func wantValue(t *testing.T, s rendezvous.State, key, value string, revision uint64) {
	t.Helper()
	e, err := s.Get(t.Context(), bucket, key)
	if err != nil {
		t.Fatalf("Get %s: %v", key, err)
	}
	if want := (rendezvous.Entry{Key: key, Value: []byte(value), Revision: revision}); !cmp.Equal(e, want) {
		t.Errorf("Get %s: %s", key, cmp.Diff(want, e))
	}
}

func wantErr(t *testing.T, what string, err error, wants ...error) {
	t.Helper()
	if !slices.ContainsFunc(wants, func(want error) bool { return errors.Is(err, want) }) {
		t.Errorf("%s: %v, want one of %v", what, err, wants)
	}
}

func missing(t *testing.T, s rendezvous.State) {
	_, err := s.Get(t.Context(), bucket, "none")
	wantErr(t, "Get", err, rendezvous.ErrNotFound)
	wantErr(t, "Delete", s.Delete(t.Context(), bucket, "none", 7), rendezvous.ErrNotFound, rendezvous.ErrConflict)
	wantErr(t, "Delete of any", s.Delete(t.Context(), bucket, "none", rendezvous.AnyRevision), rendezvous.ErrNotFound)
	_, err = s.Put(t.Context(), bucket, "none", []byte("x"), 7)
	wantErr(t, "Put at a revision", err, rendezvous.ErrConflict)
	if all, err := s.List(t.Context(), bucket); err != nil || len(all) != 0 {
		t.Errorf("List = %v, %v", all, err)
	}
}

func roundTrip(t *testing.T, s rendezvous.State) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for key, value := range map[string]string{
		"a": "x", "A": "another case", "with-dash_and_9": string(all), "-": "dash", "empty": "", "long": string(make([]byte, 16<<10)),
	} {
		rev := put(t, s, key, value, 0)
		e, err := s.Get(t.Context(), bucket, key)
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Value) != value || e.Revision != rev || e.Key != key {
			t.Errorf("%s came back as %q at %d, want %q at %d", key, e.Value, e.Revision, value, rev)
		}
	}
}

func create(t *testing.T, s rendezvous.State) {
	rev := put(t, s, "k", "first", 0)
	_, err := s.Put(t.Context(), bucket, "k", []byte("second"), 0)
	wantErr(t, "Put of what exists", err, rendezvous.ErrConflict)
	wantValue(t, s, "k", "first", rev)
}

func replace(t *testing.T, s rendezvous.State) {
	first := put(t, s, "k", "1", 0)
	second := put(t, s, "k", "2", first)
	_, err := s.Put(t.Context(), bucket, "k", []byte("3"), first)
	wantErr(t, "Put at an old revision", err, rendezvous.ErrConflict)
	wantValue(t, s, "k", "2", second)
	wantValue(t, s, "k", "4", put(t, s, "k", "4", rendezvous.AnyRevision))
	wantValue(t, s, "new", "5", put(t, s, "new", "5", rendezvous.AnyRevision))
}

// revisions: one that was given does not come back, so that whoever has an old one can
// not take what is new.
func revisions(t *testing.T, s rendezvous.State) {
	seen := map[uint64]bool{}
	for i := range 5 {
		rev := put(t, s, "k", fmt.Sprint(i), 0)
		if seen[rev] {
			t.Fatalf("revision %d was given again", rev)
		}
		seen[rev] = true
		if err := s.Delete(t.Context(), bucket, "k", rev); err != nil {
			t.Fatal(err)
		}
	}
}

func deletes(t *testing.T, s rendezvous.State) {
	first := put(t, s, "k", "1", 0)
	second := put(t, s, "k", "2", first)
	wantErr(t, "Delete at an old revision", s.Delete(t.Context(), bucket, "k", first), rendezvous.ErrConflict)
	wantValue(t, s, "k", "2", second)
	if err := s.Delete(t.Context(), bucket, "k", second); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), bucket, "k")
	wantErr(t, "Get of what was deleted", err, rendezvous.ErrNotFound)
	wantErr(t, "the second Delete", s.Delete(t.Context(), bucket, "k", second), rendezvous.ErrNotFound, rendezvous.ErrConflict)
	put(t, s, "k", "3", 0)
	if err := s.Delete(t.Context(), bucket, "k", rendezvous.AnyRevision); err != nil {
		t.Fatal(err)
	}
}

func buckets(t *testing.T, s rendezvous.State) {
	all := []rendezvous.Bucket{
		rendezvous.BucketTokens, rendezvous.BucketRegistrations, rendezvous.BucketAuthorizations,
		rendezvous.BucketNodes, rendezvous.BucketSecrets,
	}
	for _, b := range all {
		if _, err := s.Put(t.Context(), b, "same", []byte(b), 0); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	for _, b := range all {
		list, err := s.List(t.Context(), b)
		if err != nil || len(list) != 1 || string(list[0].Value) != string(b) {
			t.Errorf("%s lists %v, %v", b, list, err)
		}
	}
}

func list(t *testing.T, s rendezvous.State) {
	want := map[string]uint64{}
	for i := range 50 {
		key := fmt.Sprintf("k%d", i*7%50)
		want[key] = put(t, s, key, key, 0)
	}
	if err := s.Delete(t.Context(), bucket, "k7", rendezvous.AnyRevision); err != nil {
		t.Fatal(err)
	}
	delete(want, "k7")
	all, err := s.List(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(all, func(a, b rendezvous.Entry) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	}) {
		t.Error("List is not sorted by key")
	}
	got := map[string]uint64{}
	for _, e := range all {
		got[e.Key] = e.Revision
		if string(e.Value) != e.Key {
			t.Errorf("%s has the value %q", e.Key, e.Value)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// together runs n functions at once and returns how many succeed. Any other error than
// those of a State fails the test.
func together(t *testing.T, n int, f func(i int) error) int {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantErr(t, "one of many", err, rendezvous.ErrConflict, rendezvous.ErrNotFound)
	}
	return won
}

func oneTakes(t *testing.T, s rendezvous.State) {
	for round := range 5 {
		rev := put(t, s, "k", fmt.Sprint(round), 0)
		if won := together(t, 16, func(int) error { return s.Delete(t.Context(), bucket, "k", rev) }); won != 1 {
			t.Fatalf("round %d: %d have taken the entry", round, won)
		}
	}
}

func oneCreates(t *testing.T, s rendezvous.State) {
	won := together(t, 16, func(i int) error {
		_, err := s.Put(t.Context(), bucket, "k", fmt.Append(nil, i), 0)
		return err
	})
	if won != 1 {
		t.Errorf("%d have created the entry", won)
	}
}

// counter: no change is lost where all go by the revision.
func counter(t *testing.T, s rendezvous.State) {
	put(t, s, "k", "", 0)
	const each = 5
	won := together(t, 4, func(int) error {
		for range each {
			for {
				e, err := s.Get(t.Context(), bucket, "k")
				if err != nil {
					return err
				}
				_, err = s.Put(t.Context(), bucket, "k", append(e.Value, 'x'), e.Revision)
				if err == nil {
					break
				}
				if !errors.Is(err, rendezvous.ErrConflict) {
					return err
				}
			}
		}
		return nil
	})
	e, err := s.Get(t.Context(), bucket, "k")
	if err != nil || len(e.Value) != 4*each || won != 4 {
		t.Errorf("%d of %d changes are there, %v", len(e.Value), 4*each, err)
	}
}

func endedContext(t *testing.T, s rendezvous.State) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, bucket, "k", []byte("x"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Put with an ended context: %v", err)
	}
	if _, err := s.Get(ctx, bucket, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with an ended context: %v", err)
	}
	put(t, s, "k", "y", rendezvous.AnyRevision)
}

func valuesAreOwn(t *testing.T, s rendezvous.State) {
	value := []byte("abc")
	rev, err := s.Put(t.Context(), bucket, "k", value, 0)
	if err != nil {
		t.Fatal(err)
	}
	value[0] = 'X'
	wantValue(t, s, "k", "abc", rev)
	e, err := s.Get(t.Context(), bucket, "k")
	if err != nil {
		t.Fatal(err)
	}
	e.Value[0] = 'Y'
	wantValue(t, s, "k", "abc", rev)
}

func afterClose(t *testing.T, s rendezvous.State) {
	put(t, s, "k", "x", 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), bucket, "k"); err == nil || errors.Is(err, rendezvous.ErrNotFound) {
		t.Errorf("Get after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
