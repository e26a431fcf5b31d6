package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A file with rules that comes, and for which there is no room here, waits like any other. Its rules are read without being
// kept, and count beside those that are here: a path that either hides neither moves nor is removed until the file is here.

// waitingFiles are the files with rules of the remote's for which there is no room here, as a pull has read them.
func (m *Mirror) waitingFiles() ruleFiles {
	files := ruleFiles{}
	maps.Copy(files, m.s.rules.waiting())
	for path, in := range m.incoming {
		files[path] = in.text
	}
	maps.DeleteFunc(files, func(path, _ string) bool {
		h, _ := m.s.held.at(path)
		return !h.Lacking || !m.isRules(path) && !m.cfg.KeepRules
	})
	return files
}

// unwrittenRules replaces texts in files that could not be written to the directory by those that the directory has. The
// replaced texts go to waiting.
func (m *Mirror) unwrittenRules(files, waiting ruleFiles) {
	if !m.readsFiles() || m.cfg.Dir == "" {
		return
	}
	for _, s := range m.cfg.Local.Skipped(m.isRules) {
		if s.Why != changes.Unwritten {
			continue
		}
		for _, p := range s.Paths {
			if _, waits := waiting[p.Path]; !waits {
				waiting[p.Path] = files[p.Path]
			}
			delete(files, p.Path)
			if text := m.onDisk(p.Path); text != "" {
				files[p.Path] = text
			}
		}
	}
}

// onDisk is the text of a file with rules in the directory, "" if there is none that can be read.
func (m *Mirror) onDisk(path string) string {
	dir, err := os.OpenRoot(m.cfg.Dir) // no link leads out of it
	if err != nil {
		return ""
	}
	defer dir.Close()
	// A pipe is not waited for.
	file, err := dir.OpenFile(filepath.FromSlash(rawname.Raw(m.relative(path))), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(file, maxRuleBytes+1))
	if err != nil || len(text) > maxRuleBytes {
		return ""
	}
	return string(text)
}

// waitingStored reports whether the state has the files with rules that wait for room here.
func (m *Mirror) waitingStored() bool {
	return !m.readsFiles() || maps.Equal(m.waiting, m.s.rules.waiting())
}

// comes reports whether a local path is that of a file with rules that a pull brings, or that waits for room here. It
// comes also if it hides itself.
func (m *Mirror) comes(path string) bool {
	_, is := m.incoming[path]
	_, waits := m.waiting[path]
	return is || waits
}

// A rulesWaitError ends a pull that has gone by files with rules for which it turns out that there is no room here.
type rulesWaitError struct{ paths []string }

func (e *rulesWaitError) Error() string { return "there is no room here for files with rules" }

// rulesLacking returns the paths of files with rules that a batch lacks, and that did not wait before.
func (m *Mirror) rulesLacking(b *batch) (paths []string) {
	for path := range m.incoming {
		if _, waits := m.waiting[path]; !waits && b.lacking[path] {
			paths = append(paths, path)
		}
	}
	return paths
}

// pullByRules is pullOnce, and begins again by the rules of both sides if it ends with a rulesWaitError.
func (m *Mirror) pullByRules(ctx context.Context, r *Result) error {
	for {
		err := m.pullOnce(ctx, r)
		wait, is := errors.AsType[*rulesWaitError](err)
		if !is {
			return err
		}
		for _, path := range wait.paths {
			m.waiting[path] = m.incoming[path].text
		}
	}
}

// withoutKeeping reads the content of files with rules for which there is no room here. gone takes the hashes that the
// remote does not have.
func (m *Mirror) withoutKeeping(ctx context.Context, changed []tree.Entry, full noRoom, gone map[tree.Hash]bool) (map[tree.Hash][]byte, error) {
	var of []tree.Entry
	var size int64
	for i := range changed {
		if full.of(&changed[i]) != nil {
			of = append(of, changed[i])
			size += changed[i].Size
		}
	}
	if size > maxRuleBytes {
		return nil, errTooManyRules
	}
	ask, err := m.lackingHere(ctx, hashesOf(of, allParts))
	if err != nil {
		return nil, err
	}
	lost, err := m.lackingThere(ctx, ask)
	if err != nil {
		return nil, err
	}
	for _, h := range lost {
		gone[h] = true
	}
	texts := map[tree.Hash][]byte{}
	for some := range slices.Chunk(slices.DeleteFunc(ask, func(h tree.Hash) bool { return gone[h] }), m.limits.ask) {
		if err := m.readObjects(ctx, some, texts); err != nil {
			return nil, fmt.Errorf("fetch what is ignored: %w", err)
		}
	}
	return texts, nil
}

// readObjects reads content of the remote's into texts.
func (m *Mirror) readObjects(ctx context.Context, hashes []tree.Hash, texts map[tree.Hash][]byte) (err error) {
	s, err := m.cfg.Remote.FetchObjects(ctx, hashes)
	if err != nil {
		return err
	}
	defer func() { s.Close(err) }()
	for {
		d, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.Check()
		}
		if err != nil {
			return err
		}
		if slices.Contains(hashes, d.Hash) {
			texts[d.Hash] = bytes.Clone(d.Bytes)
		}
	}
}
