package computer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

// An error of synchronisation keeps its class and its path, also one that another stream has told.
func TestMapError(t *testing.T) {
	told := &protocol.NamedError{Code: "ENOENT", Message: "it is gone", Path: "/a"}
	path := capnweb.Object{{Name: "path", Value: "/a"}}
	for name, tt := range map[string]struct {
		err  error
		want *capnweb.Error
	}{
		"of a run":               {fmt.Errorf("get: %w", told), &capnweb.Error{Name: nameExec, Code: "ENOENT", Message: "it is gone"}},
		"of synchronisation":     {&changes.Error{Code: "ENOENT", Path: "/a", Err: errors.New("it is gone")}, &capnweb.Error{Name: "WorkspaceFsError", Code: "ENOENT", Message: "it is gone", Props: path}},
		"told by another stream": {&changes.Error{Code: "ENOENT", Path: "/a", Err: told}, &capnweb.Error{Name: "WorkspaceFsError", Code: "ENOENT", Message: "it is gone", Props: path}},
		"of this package":        {&capnweb.Error{Code: "EINVAL"}, nil},
		"without a name":         {errors.New("the disk is on fire"), nil},
	} {
		if diff := cmp.Diff(tt.want, mapError(tt.err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
