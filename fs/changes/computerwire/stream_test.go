package computerwire

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// ending is a stream that counts how often it is closed, and with what.
func ending(items []int, closed *[]error) changes.Stream[int] {
	next := changes.FromSlice(items)
	return changes.FromFunc(next.Next, func(err error) { *closed = append(*closed, err) })
}

// A stream that is sent is closed once: at its end, with what broke it, or when no more of
// it is wanted.
func TestSendCloses(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		form func(int) (int, error)
		take func(capnweb.Stream[int]) error
		want error // that it is closed with
	}{
		"at its end": {Same[int], func(s capnweb.Stream[int]) error {
			for _, err := range s.All(context.Background()) {
				if err != nil {
					return err
				}
			}
			return nil
		}, nil},
		"by what has no form": {func(int) (int, error) { return 0, broken }, func(s capnweb.Stream[int]) error {
			if _, err := s.Next(context.Background()); !errors.Is(err, broken) {
				return errors.New("it is not broken")
			}
			return nil
		}, broken},
		"by its reader": {Same[int], func(s capnweb.Stream[int]) error {
			_, err := s.Next(context.Background())
			s.Cancel(broken)
			return err
		}, broken},
	} {
		var closed []error
		s := Send(ending([]int{1, 2}, &closed), c.form)
		if err := c.take(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Cancel(io.ErrClosedPipe) // too late
		if len(closed) != 1 || !errors.Is(closed[0], c.want) {
			t.Errorf("%s: closed with %v", name, closed)
		}
	}
}

// A stream that is received gives its items in their form, its end as it is, and errors as
// they are wanted.
func TestReceive(t *testing.T) {
	told := &capnweb.Error{Code: "EIO"}
	mapped := errors.New("mapped")
	n := 0
	s := Receive(capnweb.NewStream(func(context.Context) (int, error) {
		if n++; n > 2 {
			return 0, told
		}
		return n, nil
	}, nil), func(n int) (string, error) { return string(rune('a' + n)), nil }, func(err error) error {
		if !errors.Is(err, told) {
			t.Errorf("got %v", err)
		}
		return mapped
	})
	items, err := changes.Collect(t.Context(), s)
	if len(items) != 2 || items[0] != "b" || items[1] != "c" || !errors.Is(err, mapped) {
		t.Errorf("%q, %v", items, err)
	}
	if items, err := changes.Collect(t.Context(), Receive(capnweb.StreamOf(1), Same[int], nil)); err != nil || len(items) != 1 {
		t.Errorf("%v, %v", items, err)
	}
	var reason error
	left := Receive(capnweb.NewStream(func(context.Context) (int, error) { return 1, nil }, func(err error) { reason = err }), Same[int], nil)
	left.Close(nil)
	if reason == nil {
		t.Error("nobody was told")
	}
}
