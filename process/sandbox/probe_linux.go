package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// probeVariable hands a helper its trials, JSON of trial.
const probeVariable = "WSD_SANDBOX_TRIALS"

// A trial is something a confined helper does, and what must come of it.
type trial struct {
	Do   string // "read", "write", "mkdir" or "socket"
	Path string `json:",omitempty"`
	// Want lists the errors that are right; none means that it must succeed.
	Want []syscall.Errno `json:",omitempty"`
}

func (t *trial) run() error {
	var err error
	switch t.Do {
	case "read":
		_, err = os.ReadFile(t.Path)
	case "write":
		err = os.WriteFile(t.Path, []byte("probe\n"), 0o600)
	case "mkdir":
		err = os.Mkdir(t.Path, 0o700)
	case "socket":
		var fd int
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			_ = unix.Close(fd)
		}
	}
	switch {
	case err == nil && len(t.Want) == 0:
		return nil
	case err == nil:
		return fmt.Errorf("%s %s was not stopped", t.Do, t.Path)
	}
	for _, want := range t.Want {
		if errors.Is(err, want) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", t.Do, err)
}

// probeInside is the role of a helper that tries out its sandbox.
func probeInside() error {
	var trials []trial
	if err := json.Unmarshal([]byte(os.Getenv(probeVariable)), &trials); err != nil {
		return fmt.Errorf("decode trials: %w", err)
	}
	var errs []error
	for _, t := range trials {
		errs = append(errs, t.run())
	}
	if err := errors.Join(errs...); err != nil {
		_, err = os.Stdout.WriteString(err.Error())
		return err
	}
	return nil
}

// inside runs trials under a policy, and names the mechanism.
func (e *Enforcer) inside(ctx context.Context, s *protocol.Sandbox, trials []trial) (mechanism string, err error) {
	p, err := Resolve(s, Context{})
	if err != nil {
		return "", err
	}
	pl, masks, w, err := e.planFor(ctx, p)
	if err != nil {
		return "", err
	}
	pl.Role = roleProbe
	text, err := json.Marshal(trials)
	if err != nil {
		releaseMasks(masks)
		return "", err
	}
	h, err := e.start(ctx, pl, masks, w, []string{probeVariable + "=" + string(text)})
	if err != nil {
		return "", err
	}
	out, err := io.ReadAll(h.out)
	if err = errors.Join(err, h.finish()); err == nil && len(out) > 0 {
		err = errors.New(strings.TrimSpace(string(out)))
	}
	return pl.Mechanism, err
}

// probe fills in what Linux can do.
func (e *Enforcer) probe(ctx context.Context, r *Report) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		r.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	e.probeParts(ctx, r)
	dir, err := os.MkdirTemp("", "wsd-probe-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // as far as possible
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		err = e.probePolicies(ctx, r, dir)
	}
	if err != nil {
		bad := Finding{Says: "could not be tried: " + err.Error()}
		r.ReadOnly, r.WorkspaceWrite, r.RestrictedRead, r.DenyEntries, r.NoNetwork = bad, bad, bad, bad, bad
	}
}

func (e *Enforcer) probeParts(ctx context.Context, r *Report) {
	r.LandlockABI = landlockABI()
	r.Seccomp = finding("seccomp", e.seccompWorks(ctx), "system calls can be filtered")
	base := plan{Mechanism: mechanismNamespaces, Base: Read, Network: true}
	user := e.try(ctx, &base, wayUser)
	r.UserNamespaces = finding("namespaces", user, "user namespaces can be made, and mounts in them")
	quiet := base
	quiet.Network = false
	if e.namespaces(ctx).way == wayRoot {
		r.MountNamespaces = finding("namespaces", e.try(ctx, &base, wayRoot), "this user can make mount namespaces")
		r.NetworkNamespaces = finding("namespaces", e.try(ctx, &quiet, wayRoot), "this user can make network namespaces")
	} else {
		r.MountNamespaces = finding("namespaces", user, "mount namespaces can be made within user namespaces")
		r.NetworkNamespaces = finding("namespaces", e.try(ctx, &quiet, wayUser), "network namespaces can be made within user namespaces")
	}
	r.Landlock = finding("landlock", e.landlockWorks(ctx),
		fmt.Sprintf("files can be restricted with Landlock (version %d)", r.LandlockABI))
	r.Signals = Finding{Says: fmt.Sprintf(
		"Landlock version %d cannot keep confined programs from signalling others of the same user; that takes version %d",
		r.LandlockABI, landABIScopes)}
	if r.LandlockABI >= landABIScopes {
		r.Signals = Finding{true, "landlock", "confined programs can signal each other only"}
	}
}

// probePolicies tries whole policies on files in dir.
func (e *Enforcer) probePolicies(ctx context.Context, r *Report, dir string) error {
	work, secret := filepath.Join(dir, "work"), filepath.Join(dir, "work", "secret")
	file := filepath.Join(secret, "file")
	if err := os.MkdirAll(secret, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte("probe\n"), 0o600); err != nil {
		return err
	}
	stopped := []syscall.Errno{syscall.EROFS, syscall.EACCES}
	root := special("root", protocol.AccessRead)
	for _, t := range []struct {
		to      *Finding
		says    string
		network string
		entries []protocol.PermissionEntry
		trials  []trial
	}{
		{
			&r.ReadOnly, "programs can be kept from writing anywhere", protocol.NetworkEnabled,
			[]protocol.PermissionEntry{root},
			[]trial{{"read", file, nil}, {"write", file, stopped}, {"write", filepath.Join(dir, "new"), stopped}},
		},
		{
			&r.WorkspaceWrite, "programs can be kept to writing in their workspace, and off its .git", protocol.NetworkEnabled,
			[]protocol.PermissionEntry{root, pathEntry(work, protocol.AccessWrite)},
			[]trial{
				{"write", filepath.Join(work, "new"), nil},
				{"write", filepath.Join(dir, "new"), stopped},
				{"mkdir", filepath.Join(work, ".git"), []syscall.Errno{syscall.EEXIST}},
				{"write", filepath.Join(work, ".git", "config"), stopped},
			},
		},
		{
			&r.RestrictedRead, "programs can be kept to reading what is listed", protocol.NetworkEnabled,
			[]protocol.PermissionEntry{special("minimal", protocol.AccessRead), pathEntry(secret, protocol.AccessRead)},
			[]trial{
				{"read", file, nil},
				{"write", file, stopped},
				{"read", filepath.Join(work, "new"), []syscall.Errno{syscall.ENOENT, syscall.EACCES}},
			},
		},
		{
			&r.DenyEntries, "single places can be made unreadable", protocol.NetworkEnabled,
			[]protocol.PermissionEntry{root, pathEntry(secret, protocol.AccessDeny)},
			[]trial{{"read", file, []syscall.Errno{syscall.EACCES}}},
		},
		{
			&r.NoNetwork, "programs can be kept off the network", protocol.NetworkRestricted,
			[]protocol.PermissionEntry{root},
			[]trial{{"socket", "", []syscall.Errno{syscall.EPERM}}},
		},
	} {
		mechanism, err := e.inside(ctx, probePolicy(t.network, t.entries), t.trials)
		*t.to = finding(mechanism, err, t.says)
	}
	return nil
}

func finding(mechanism string, err error, says string) Finding {
	if err != nil {
		return Finding{Says: "no: " + reasonOf(err)}
	}
	return Finding{true, mechanism, says}
}

func probePolicy(network string, entries []protocol.PermissionEntry) *protocol.Sandbox {
	return &protocol.Sandbox{
		WindowsSandboxLevel: "disabled",
		Permissions: protocol.Permissions{
			Type: protocol.PermissionsManaged, Network: network,
			FileSystem: &protocol.FileSystemPermissions{Type: protocol.FileSystemRestricted, Entries: entries},
		},
	}
}

func special(kind, access string) protocol.PermissionEntry {
	return protocol.PermissionEntry{
		Path:   protocol.PermissionPath{Type: "special", Value: &protocol.SpecialPath{Kind: kind}},
		Access: access,
	}
}

func pathEntry(path, access string) protocol.PermissionEntry {
	uri := fileuri.Format(path)
	return protocol.PermissionEntry{Path: protocol.PermissionPath{Type: "path", Path: &uri}, Access: access}
}
