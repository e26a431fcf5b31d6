package client

import (
	"context"
	"errors"
	iofs "io/fs"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

func TestErrorsMapped(t *testing.T) {
	all := map[string]error{"exist": iofs.ErrExist, "not exist": iofs.ErrNotExist, "permission": iofs.ErrPermission, "unsupported": errors.ErrUnsupported}
	for _, tt := range []struct {
		code protocol.Code
		text string
		data string
		is   string
	}{
		{protocol.CodeNotFound, "unknown file handle `h`", "", "not exist"},
		{protocol.CodeInternal, "File exists (os error 17)", "", "exist"},
		{protocol.CodeInvalidRequest, "Permission denied (os error 13)", "", "permission"},
		{protocol.CodeInvalidRequest, "Operation not permitted (os error 1)", "", "permission"},
		{protocol.CodeInternal, "Permission denied (os error 13)", `{"kind":"spawnPermissionDenied"}`, "permission"},
		{protocol.CodeInternal, "gone", `{"kind":"spawnNotFound"}`, "not exist"},
		{protocol.CodeMethodNotFound, "no such method", "", "unsupported"},
		{protocol.CodeInternal, "Not a directory (os error 20)", "", ""},
		{protocol.CodeInternal, "odd (os error x)", `["no object"]`, ""},
		{protocol.CodeInternal, "odd)", `{"kind":7}`, ""},
	} {
		failure := &protocol.Error{Code: tt.code, Message: tt.text}
		if tt.data != "" {
			failure.Data = protocol.RawData(tt.data)
		}
		err := pathError("open", "/x", callError("m", failure))
		for name, target := range all {
			if got := errors.Is(err, target); got != (name == tt.is) {
				t.Errorf("%s: is %q: %v", tt.text, name, got)
			}
		}
		if at, ok := errors.AsType[*iofs.PathError](err); !ok || at.Path != "/x" {
			t.Errorf("%s: %#v", tt.text, err)
		}
	}
}

func TestPreconditionMapped(t *testing.T) {
	for data, want := range map[string]string{
		`{"kind":"preconditionFailed","currentHash":"sha256:00"}`: "sha256:00",
		`{"kind":"preconditionFailed","currentHash":null}`:        "",
	} {
		err := pathError("write", "/x", callError("m", &protocol.Error{Code: protocol.CodePreconditionFailed, Data: protocol.RawData(data)}))
		got, ok := errors.AsType[*PreconditionError](err)
		if !ok || got.CurrentHash != want || got.Path != "/x" || got.Error() == "" {
			t.Errorf("%s: %#v", data, err)
		}
	}
}

func TestOtherErrors(t *testing.T) {
	if err := callError("m", rpc.ErrClosed); !errors.Is(err, ErrTransportClosed) || !errors.Is(err, ErrMayHaveRun) {
		t.Errorf("closed: %v", err)
	}
	if err := callError("m", context.Canceled); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if err := pathError("x", "/", callError("m", nil)); err != nil {
		t.Errorf("nil: %v", err)
	}
	if !errors.Is(ErrClosed, ErrTransportClosed) {
		t.Error("ErrClosed is not ErrTransportClosed")
	}
}

func TestModes(t *testing.T) {
	for bits := range uint32(0o10000) {
		if got := bitsOf(modeOf(bits)); got != bits {
			t.Fatalf("%o became %o", bits, got)
		}
	}
	for _, tt := range []struct {
		meta protocol.Metadata
		want string
	}{
		{protocol.Metadata{IsFile: true, Mode: 0o4755}, "urwxr-xr-x"},
		{protocol.Metadata{IsDirectory: true, Mode: 0o1777}, "dtrwxrwxrwx"},
		{protocol.Metadata{Mode: 0o600}, "?rw-------"},
	} {
		if got := newFileInfo("x", "/x", &tt.meta).Mode().String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// A directory of any size is listed: the limits for what a server takes are not those
// for what it answers.
func TestLargeDirectory(t *testing.T) {
	const entries = 50_000
	s := newFake(t)
	s.answer = func(_ *fakeConn, req *rpc.Request) bool {
		if req.Method != protocol.MethodFsReadDirectory {
			return false
		}
		var result protocol.ReadDirectoryResult
		for range entries {
			result.Entries = append(result.Entries, protocol.DirectoryEntry{FileName: "x", IsFile: true, Metadata: &protocol.Metadata{IsFile: true}})
		}
		req.ReplyInline(&result, nil)
		return true
	}
	got, err := s.open(t, nil).ReadDir(t.Context(), "/srv")
	if err != nil || len(got) != entries {
		t.Errorf("%d entries, %v", len(got), err)
	}
}
