package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

const (
	// copiers is how many files are copied at a time.
	copiers = 8
	// copyAttempts is how often one is begun when the connection is lost again and
	// again.
	copyAttempts = 5
	// copyPause is before the second of them, and doubles. For a moment a client may not
	// have seen yet that its connection is lost, and then every call fails at once.
	copyPause = 20 * time.Millisecond
	// maxSourcePath bounds the paths of a download, so that a tree without an end has one.
	// No system that the server may run on opens longer ones by their name.
	maxSourcePath = 4096
)

// transfer copies what was planned: directories first, then files and links, last
// the permissions of the directories, which may forbid writing into them.
type transfer struct {
	app      *app
	client   *client.Client
	progress *progress // nil when none is shown

	dirs  []copyItem
	files []copyItem
	land  *landing // of downloads
	allow allowFlags

	mu       sync.Mutex
	failures int
}

// copyItem is one thing to copy. from and to are on different sides; to is relative to the
// landing in a download.
type copyItem struct {
	from, to string
	mode     iofs.FileMode // 0 when the server does not tell
	size     int64
	upload   bool
	target   string // of a symbolic link
}

func newTransfer(a *app, c *client.Client, allow allowFlags, show bool) *transfer {
	t := &transfer{app: a, client: c, allow: allow}
	if show {
		t.progress = newProgress(a.stderr)
	}
	return t
}

func (t *transfer) close() {
	if t.progress != nil {
		t.progress.close()
	}
	if t.land != nil {
		t.land.close()
	}
}

// failed reports a failure and reports whether it was one.
func (t *transfer) failed(name string, err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	if !strings.Contains(text, name) {
		text = name + ": " + text
	}
	t.mu.Lock()
	t.failures++
	t.mu.Unlock()
	t.tell(text)
	return true
}

// tell prints a line beside the progress.
func (t *transfer) tell(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.progress != nil {
		t.progress.clear()
	}
	_ = say(t.app.stderr, "wsd cp: %s", text)
}

// planUpload finds what is below a local path. A link that is named itself is
// followed.
func (t *transfer) planUpload(source, dest string) {
	info, err := os.Stat(source)
	if t.failed(source, err) {
		return
	}
	if !info.IsDir() {
		t.planFile(source, dest, info.Mode(), info.Size(), true)
		return
	}
	root := filepath.Clean(source)
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved // WalkDir does not enter a link
	}
	_ = filepath.WalkDir(root, func(name string, entry iofs.DirEntry, err error) error { // failures are reported
		if t.failed(name, err) {
			return nil
		}
		rest, err := filepath.Rel(root, name)
		if t.failed(name, err) {
			return nil
		}
		info, err := entry.Info()
		if t.failed(name, err) {
			return nil
		}
		to := path.Join(dest, filepath.ToSlash(rest))
		switch mode := info.Mode(); {
		case mode.IsDir():
			t.dirs = append(t.dirs, copyItem{from: name, to: to, mode: mode, upload: true})
		case mode&iofs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if !t.failed(name, err) {
				t.files = append(t.files, copyItem{from: name, to: to, mode: mode, target: target, upload: true})
			}
		default:
			t.planFile(name, to, mode, info.Size(), true)
		}
		return nil
	})
}

func (t *transfer) planFile(from, to string, mode iofs.FileMode, size int64, upload bool) {
	if !mode.IsRegular() {
		t.failed(from, errors.New("is neither a file, nor a directory, nor a link"))
		return
	}
	t.files = append(t.files, copyItem{from: from, to: to, mode: mode, size: size, upload: upload})
}

// planDownload finds what is below a path of the server. base is the source's name in the
// destination if that is a directory, else "".
func (t *transfer) planDownload(ctx context.Context, source, dest, base string) {
	info, err := t.client.Stat(ctx, source)
	if t.failed(source, err) {
		return
	}
	if t.land == nil {
		if t.land, err = openLanding(dest, base != "", info.IsDir()); t.failed(dest, err) {
			return
		}
	}
	to := path.Join(t.land.base, base)
	if info.IsDir() && t.withheld(info, to) {
		return
	}
	t.planRemote(ctx, info, source, to)
}

// withheld reports whether something must not come over by its name, and names it. A file
// that the user has named is not asked about.
func (t *transfer) withheld(info *client.FileInfo, to string) bool {
	if !t.allow.isCode(t.land.real, to, info.Mode()) {
		return false
	}
	t.tellWithheld(to, 0)
	return true
}

func (t *transfer) tellWithheld(to string, bits uint32) {
	t.tell("withheld: " + t.land.name(to) + ": " + withheldText(bits))
}

func (t *transfer) planRemote(ctx context.Context, info *client.FileInfo, source, dest string) {
	mode, bits := t.allow.modeOf(info.Mode())
	if bits != 0 {
		t.tellWithheld(dest, bits)
	}
	switch {
	case mode.IsDir():
		t.dirs = append(t.dirs, copyItem{from: source, to: dest, mode: mode})
		entries, err := t.client.ReadDir(ctx, source)
		if t.failed(source, err) {
			return
		}
		for i, entry := range entries {
			err := safeName(entry.Name())
			if i > 0 && entries[i-1].Name() == entry.Name() { // they are sorted
				err = fmt.Errorf("the server lists the name %q twice", entry.Name())
			}
			if err == nil && len(source)+len(entry.Name()) >= maxSourcePath {
				err = fmt.Errorf("its path has more than %d bytes", maxSourcePath)
			}
			if t.failed(path.Join(source, entry.Name()), err) {
				continue
			}
			if t.withheld(entry, path.Join(dest, entry.Name())) {
				continue
			}
			t.planRemote(ctx, entry, path.Join(source, entry.Name()), path.Join(dest, entry.Name()))
		}
	case mode&iofs.ModeSymlink != 0:
		target, err := t.client.ReadLink(ctx, source)
		if err == nil && target == "" {
			err = errors.New("the server does not tell where the link leads")
		}
		if !t.failed(source, err) {
			t.files = append(t.files, copyItem{from: source, to: dest, mode: mode, target: target})
		}
	default:
		t.planFile(source, dest, mode, info.Size(), false)
	}
}

// safeName refuses names with which a server could make us write elsewhere.
func safeName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"+string(filepath.Separator)) {
		return fmt.Errorf("the server lists the impossible name %q", name)
	}
	return nil
}

// run does what was planned.
func (t *transfer) run(ctx context.Context) {
	var total int64
	for _, item := range t.files {
		total += item.size
	}
	if t.progress != nil {
		t.progress.start(len(t.files), total)
	}
	t.makeDirs(ctx)
	queue := make(chan copyItem)
	var wg sync.WaitGroup
	for range min(copiers, len(t.files)) {
		wg.Go(func() {
			for item := range queue {
				t.failed(item.from, t.copy(ctx, &item))
				if t.progress != nil {
					t.progress.fileDone()
				}
			}
		})
	}
	for _, item := range t.files {
		if ctx.Err() != nil || t.client.Err() != nil {
			t.failed(item.from, errors.Join(ctx.Err(), t.client.Err()))
			break
		}
		queue <- item
	}
	close(queue)
	wg.Wait()
	t.finishDirs(ctx)
}

// makeDirs makes the directories, writable for us until all is in them.
func (t *transfer) makeDirs(ctx context.Context) {
	for i := range t.dirs {
		dir := &t.dirs[i]
		var err error
		if dir.upload {
			if err = t.client.MkdirAll(ctx, dir.to); err == nil && dir.mode.Perm()&0o200 == 0 {
				err = t.chmodRemote(ctx, dir.to, dir.mode|0o700)
			}
		} else {
			err = t.land.mkdir(dir.to)
		}
		t.failed(t.named(dir), err)
	}
}

// named is where an item is copied to, as the user knows it.
func (t *transfer) named(item *copyItem) string {
	if item.upload {
		return item.to
	}
	return t.land.name(item.to)
}

// finishDirs sets the permissions of the directories, the innermost first.
func (t *transfer) finishDirs(ctx context.Context) {
	for i := len(t.dirs) - 1; i >= 0; i-- {
		dir := &t.dirs[i]
		switch {
		case dir.mode.Perm() == 0 && !dir.upload: // an older server does not tell
		case dir.upload:
			t.failed(dir.to, t.chmodRemote(ctx, dir.to, dir.mode))
		default:
			t.failed(t.named(dir), t.land.chmod(dir.to, permissions(dir.mode)))
		}
	}
}

// permissions are the bits that are copied.
func permissions(mode iofs.FileMode) iofs.FileMode {
	return mode & (iofs.ModePerm | iofs.ModeSetuid | iofs.ModeSetgid | iofs.ModeSticky)
}

// chmodRemote keeps permissions where the server can.
func (t *transfer) chmodRemote(ctx context.Context, name string, mode iofs.FileMode) error {
	err := t.client.Chmod(ctx, name, permissions(mode))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// copy copies one thing, again when the connection was lost meanwhile: a file is put in
// place as a whole, so that doing it twice does no harm.
func (t *transfer) copy(ctx context.Context, item *copyItem) error {
	for attempt := 1; ; attempt++ {
		err := t.copyOnce(ctx, item)
		if !errors.Is(err, client.ErrTransportClosed) || t.client.Err() != nil || attempt == copyAttempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(copyPause << (attempt - 1)):
		}
	}
}

func (t *transfer) copyOnce(ctx context.Context, item *copyItem) error {
	switch {
	case item.upload && item.target != "":
		return t.uploadLink(ctx, item)
	case item.upload:
		return t.upload(ctx, item)
	case item.target != "":
		return t.land.symlink(item.target, item.to)
	}
	return t.download(ctx, item)
}

func (t *transfer) upload(ctx context.Context, item *copyItem) error {
	in, err := os.Open(item.from)
	if err != nil {
		return err
	}
	defer in.Close()
	var opts *client.WriteOptions
	if ok, err := t.client.Supports(ctx, protocol.CapFsAtomicWrites); err != nil {
		return err
	} else if ok {
		opts = &client.WriteOptions{Mode: item.mode.Perm()}
	}
	out, err := t.client.Create(ctx, item.to, opts)
	if err != nil {
		return err
	}
	if _, err := out.ReadFrom(t.counted(in)); err != nil {
		return errors.Join(err, out.Discard())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return t.chmodRemote(ctx, item.to, item.mode)
}

// counted tells the progress of what is read.
func (t *transfer) counted(r io.Reader) io.Reader {
	if t.progress == nil {
		return r
	}
	return io.TeeReader(r, t.progress)
}

// uploadLink replaces what is there, as cp does with files.
func (t *transfer) uploadLink(ctx context.Context, item *copyItem) error {
	err := t.client.Symlink(ctx, item.target, item.to)
	if !errors.Is(err, iofs.ErrExist) {
		return err
	}
	temporary := path.Join(path.Dir(item.to), temporaryName())
	if err := t.client.Symlink(ctx, item.target, temporary); err != nil {
		return err
	}
	if err := t.client.Rename(ctx, temporary, item.to); err != nil {
		return errors.Join(err, t.client.Remove(ctx, temporary))
	}
	return nil
}

func (t *transfer) download(ctx context.Context, item *copyItem) error {
	in, err := t.client.Open(ctx, item.from)
	if err != nil {
		return err
	}
	defer in.Close()
	return t.land.write(item.to, t.counted(in), permissions(item.mode))
}
