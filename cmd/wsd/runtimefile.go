package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runningServer is what a server tells this user's client commands about itself, in
// a file of its own.
type runningServer struct {
	URL       string    `json:"url,omitempty"` // as a client dials it
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"startedAt"`
	Version   string    `json:"version"`
	Cwd       string    `json:"cwd"` // a path
	// Workspace is the directory that is served as one and Store its store, if any.
	Workspace string `json:"workspace,omitempty"`
	Store     string `json:"store,omitempty"`
	// TokenFile holds the token that the server asks for; empty when it asks for none
	// or for one that is in no file.
	TokenFile string `json:"tokenFile,omitempty"`
	// CertFile is the server's TLS certificate; empty without TLS.
	CertFile string `json:"certFile,omitempty"`
	// Private are the files and sockets that the sandboxes of the user's other servers
	// must not give access to either. A file with nothing else is of a program that no
	// client is to find.
	Private []string `json:"private,omitempty"`
}

// runtimeDir is the directory of the files that tell of running servers. Each is
// named PID.json, has mode 0600 and is locked (flock) by its server: a file that is
// not locked was left behind and is removed by whoever meets it.
type runtimeDir string

// userRuntimeDir is $XDG_RUNTIME_DIR/wsd, or else a directory under the user's cache
// directory. It is made if need be and belongs to this user alone.
func userRuntimeDir() (runtimeDir, error) {
	base := os.Getenv("XDG_RUNTIME_DIR")
	sub := "wsd"
	if !filepath.IsAbs(base) {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("find a directory for the runtime file: %w", err)
		}
		sub = filepath.Join("wsd", "run")
	}
	dir := filepath.Join(base, sub)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the runtime directory: %w", err)
	}
	return runtimeDir(dir), checkPrivate(dir)
}

// checkPrivate refuses a directory in which another user might put a file.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check the runtime directory: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s must be a directory that belongs to you and that nobody else may write", dir)
	}
	return nil
}

// A registration is a server's file while the server runs.
type registration struct {
	file *os.File
	path string
}

// register tells of s until the registration is closed or this process ends.
func (d runtimeDir) register(s runningServer) (*registration, error) {
	path := filepath.Join(string(d), strconv.Itoa(s.PID)+".json")
	file, err := os.CreateTemp(string(d), ".new-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("write the runtime file: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	if err == nil {
		err = writeJSON(file, s)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
		file.Close()
		return nil, fmt.Errorf("write the runtime file: %w", err)
	}
	return &registration{file: file, path: path}, nil
}

// Close removes the file.
func (r *registration) Close() error {
	return errors.Join(os.Remove(r.path), r.file.Close())
}

// servers lists the running servers, the one started last first, and removes what
// others left behind.
func (d runtimeDir) servers() ([]runningServer, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the running servers: %w", err)
	}
	var out []runningServer
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		if s, ok := readRuntimeFile(filepath.Join(string(d), e.Name())); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b runningServer) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.PID, a.PID))
	})
	return out, nil
}

// maxRuntimeFileBytes is more than a server writes.
const maxRuntimeFileBytes = 64 << 10

// readRuntimeFile reads one file; false when no server stands behind it.
func readRuntimeFile(path string) (s runningServer, ok bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s, false
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		removeStale(path, file)
		return s, false
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxRuntimeFileBytes))
	if err != nil || json.Unmarshal(raw, &s) != nil || s.URL == "" {
		return s, false
	}
	return s, true
}

// removeStale removes path if it is still the file that was found unlocked.
func removeStale(path string, file *os.File) {
	found, err := file.Stat()
	if err != nil {
		return
	}
	if now, err := os.Lstat(path); err == nil && os.SameFile(found, now) {
		os.Remove(path)
	}
}
