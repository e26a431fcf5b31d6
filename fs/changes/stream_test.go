package changes_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
)

func TestStreams(t *testing.T) {
	got, err := changes.Collect(t.Context(), changes.Map(changes.FromSlice([]int{1, 2, 3}), func(n int) (string, error) { return strconv.Itoa(n), nil }))
	if err != nil || !cmp.Equal(got, []string{"1", "2", "3"}) {
		t.Error(got, err)
	}
	// An error comes with what was before it, and stays.
	s := failing(errCut, 1, 2)
	nums, err := changes.Collect(t.Context(), s)
	if !errors.Is(err, errCut) || len(nums) != 2 {
		t.Error(nums, err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, errCut) {
		t.Error(err)
	}
	// One of the function ends a mapped stream, and closes what is below.
	var closed error
	below := changes.FromFunc(func(context.Context) (int, error) { return 1, nil }, func(err error) { closed = err })
	if _, err := changes.Collect(t.Context(), changes.Map(below, func(int) (int, error) { return 0, errCut })); !errors.Is(err, errCut) || !errors.Is(closed, errCut) {
		t.Error(err, closed)
	}
}

func TestStreamClose(t *testing.T) {
	closes := 0
	s := changes.FromFunc(func(context.Context) (int, error) { return 1, nil }, func(error) { closes++ })
	for n, err := range changes.All(t.Context(), s) {
		if n != 1 || err != nil {
			t.Error(n, err)
		}
		break
	}
	s.Close(nil)
	if _, err := s.Next(t.Context()); err == nil || errors.Is(err, io.EOF) || closes != 1 {
		t.Errorf("%v after Close, which was called %d times", err, closes)
	}
}

// A cancelled call ends, and the stream can go on with another context.
func TestStreamContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := changes.FromSlice([]int{1})
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n, err := s.Next(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
}
