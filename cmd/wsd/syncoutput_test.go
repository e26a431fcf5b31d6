package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/client/computer"
	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/tree"
)

// The errors of conflicts say what has happened, and what to do.
func TestConflictErrorsSayWhatToDo(t *testing.T) {
	o := newSyncOutput(&syncJob{app: &app{}, local: &syncLocal{dir: "/here"}})
	const decide = "Hint: say --on-conflict both, theirs, ours or hold, or make them the same\n"
	for _, tt := range []struct {
		err  error
		want string
	}{
		{o.conflicts(&mirror.ConflictError{}, "nothing was changed"), "Error: nothing was changed, since there are conflicts\n" + decide},
		{o.conflicts(&mirror.ConflictError{Moved: true}, "nothing was changed"), "Error: there are conflicts, which came up after other paths had been synchronised; none was decided\n" + decide},
		{
			o.explain(fmt.Errorf("pull: %w", mirror.ErrHeld)),
			"Error: pull: too many paths are held in conflict; resolve some, or let a policy decide\n" +
				"Hint: --on-conflict both, theirs or ours decides about all of them; to list them, with the command for each: wsd sync conflicts /here\n",
		},
	} {
		var text strings.Builder
		report(&text, tt.err)
		if text.String() != tt.want {
			t.Errorf("got %q, want %q", text.String(), tt.want)
		}
	}
	if (&syncJob{watch: true}).worthwhile(mirror.ErrHeld, 1, true) {
		t.Error("a watch tries again although too many paths are held")
	}
}

// A watch waits for a server that may come yet, and not for one that never will be what is asked for.
func TestNotListening(t *testing.T) {
	op := func(network string, err error) error {
		return fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Net: network, Err: err})
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{op("tcp", os.NewSyscallError("connect", syscall.ECONNREFUSED)), true},
		{op("tcp", os.NewSyscallError("connect", syscall.EHOSTUNREACH)), true},
		{op("tcp", os.ErrDeadlineExceeded), true},
		{op("unix", os.NewSyscallError("connect", syscall.ENOENT)), true},
		{op("tcp", &net.DNSError{IsTimeout: true}), true},
		{fmt.Errorf("connect: %w", context.DeadlineExceeded), true},
		{&client.RefusedError{Status: 503}, true},
		{&computer.RefusedError{Status: 502}, true},
		{op("tcp", &net.DNSError{IsNotFound: true}), false},
		{op("unix", os.NewSyscallError("connect", syscall.EACCES)), false},
		{&client.RefusedError{Status: 401}, false},
		{&computer.RefusedError{Status: 404}, false},
		{&tls.CertificateVerificationError{}, false},
		{errNoWorkspace, false},
		{usagef("", "a wrong URL"), false},
	} {
		if got := notListening(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

// A conflict tells the versions apart in words that a person knows.
func TestConflictsInWords(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 7, 0, time.Local)
	file := func(size int64, hash string) mirror.Version {
		return mirror.Version{Kind: tree.KindFile, Mode: 0o644, Size: size, MTime: at, Hash: hash}
	}
	executable := file(5, "1caeb808d7")
	executable.Mode = 0o755
	const when = " of 2026-03-01 12:00:07"
	for _, tt := range []struct {
		c    mirror.Conflict
		want [2]string
	}{
		{mirror.Conflict{Local: file(5, "1caeb808d7"), Remote: file(1<<20, "f46647a5aa")}, [2]string{"5 B" + when, byteCount(1<<20) + when}},
		{mirror.Conflict{Local: file(5, "1caeb808d7"), Remote: file(5, "f46647a5aa")}, [2]string{"5 B" + when + " (1caeb808)", "5 B" + when + " (f46647a5)"}},
		{mirror.Conflict{Local: executable, Remote: file(5, "1caeb808d7")}, [2]string{"mode 0755", "mode 0644"}},
		{mirror.Conflict{Local: mirror.Version{Kind: tree.KindDelete}, Remote: file(5, "1caeb808d7")}, [2]string{"nothing", "5 B" + when}},
		{mirror.Conflict{Local: mirror.Version{Kind: tree.KindDir}, Remote: mirror.Version{Kind: tree.KindSymlink, Target: "x\x1b"}}, [2]string{"a directory", "a link to x?"}},
	} {
		if here, there := versionTexts(&tt.c); here != tt.want[0] || there != tt.want[1] {
			t.Errorf("%q, %q; want %q", here, there, tt.want)
		}
	}
}

// A version that the server kept for want of room here, and keeps no more, is named as lost. So is one whose content is gone.
func TestConflictGone(t *testing.T) {
	there := mirror.Version{Kind: tree.KindSymlink, Target: "x"}
	for _, tt := range []struct {
		remote mirror.Version
		text   string
	}{
		{mirror.Version{Kind: tree.KindDelete}, "a version that it keeps no more; kept the one here; there was no room here for that one: it is lost"},
		{there, "a link to x; kept the one here; the server does not have the content of the other one any more: it is lost"},
	} {
		c := mirror.Conflict{Path: localMount + "/f", Local: mirror.Version{Kind: tree.KindDir}, Remote: tt.remote, Kept: mirror.KeptLocal, Gone: true}
		var text, object bytes.Buffer
		(&syncOutput{stderr: &text}).conflict(c)
		(&syncOutput{enc: json.NewEncoder(&object)}).conflict(c)
		if want := "conflict: f: here a directory, at the server " + tt.text + "\n"; text.String() != want {
			t.Errorf("%q, want %q", text.String(), want)
		}
		if want := `"kept":"local","gone":true}` + "\n"; !strings.HasSuffix(object.String(), want) {
			t.Errorf("%q, want %q", object.String(), want)
		}
	}
}

// Each reason for which a path was not decided about has its own words, and a "why".
func TestUndecided(t *testing.T) {
	f, below := localMount+"/d", localMount+"/d/f"
	for _, tt := range []struct {
		u            mirror.Undecided
		text, object string
	}{
		{
			mirror.Undecided{Path: f, Why: mirror.UndecidedChanged},
			"it has changed once more; run it again",
			`"why":"changed"}`,
		},
		{
			mirror.Undecided{Path: f, Why: mirror.UndecidedUnseen, Of: f},
			"the version here cannot be read, and may have changed; see who may read it",
			`"why":"unreadable","of":"d"}`,
		},
		{
			mirror.Undecided{Path: f, Why: mirror.UndecidedUnread, Of: below},
			"the version here of d/f would be lost, since it cannot be read and kept; see who may read it, or say --ours",
			`"why":"unreadable","of":"d/f"}`,
		},
		{
			mirror.Undecided{Path: f, Why: mirror.UndecidedUnkept, Of: below},
			"the version here of d/f would be lost, since there is no room to keep it; make room, or say --ours",
			`"why":"noRoom","of":"d/f"}`,
		},
		{
			mirror.Undecided{Path: f, Why: mirror.UndecidedNoRoom},
			"there is no room here for the server's version; make room, or say --ours",
			`"why":"noRoom"}`,
		},
		{
			mirror.Undecided{Path: f, Why: mirror.UndecidedLacking},
			"the server cannot read its version; see who may read it there, or say --ours",
			`"why":"lacking"}`,
		},
	} {
		var text, object bytes.Buffer
		(&syncOutput{stderr: &text}).undecided([]mirror.Undecided{tt.u})
		(&syncOutput{enc: json.NewEncoder(&object)}).undecided([]mirror.Undecided{tt.u})
		if want := "not decided: d: " + tt.text + "\n"; text.String() != want {
			t.Errorf("%s: %q, want %q", tt.u.Why, text.String(), want)
		}
		if want := `{"type":"undecided","path":"d",` + tt.object + "\n"; object.String() != want {
			t.Errorf("%s: %q, want %q", tt.u.Why, object.String(), want)
		}
	}
}
