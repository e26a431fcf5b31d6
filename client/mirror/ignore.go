package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/ignore"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A RulesError says that a file with rules of what is ignored cannot be used. Nothing was moved.
type RulesError struct {
	Path string // of the local tree, "" for all of them
	Line int    // 0 for none
	Err  error
}

// Error says why.
func (e *RulesError) Error() string {
	switch {
	case e.Path == "":
		return fmt.Sprintf("read what is ignored: %v", e.Err)
	case e.Line == 0:
		return fmt.Sprintf("read what is ignored: %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("read what is ignored: %s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns Err.
func (e *RulesError) Unwrap() error { return e.Err }

// A filter tells which local paths are ignored. It does not change.
type filter struct {
	local string   // the root
	names []string // that are ignored wherever they are
	rules *ignore.Matcher
	// waiting hides more: the rules that count once files with rules have come that there is no room for here. nil for none.
	waiting *ignore.Matcher
	text    string // what is stored of the rules, "" for none
	plain   bool   // names that are not UTF-8 are ignored, since the remote does not know them
}

func newFilter(local string, names []string, text string) (*filter, error) {
	f := &filter{local: local, names: names, text: text}
	if text == "" {
		return f, nil
	}
	var set storedRules
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return nil, err
	}
	f.rules = ignore.NewMatcher(rawSet(&set.Set))
	if set.Waiting != nil {
		f.waiting = ignore.NewMatcher(rawSet(set.Waiting))
	}
	return f, nil
}

// storedRules are rules as a text. A path that either set hides is ignored.
type storedRules struct {
	ignore.Set
	Waiting *ignore.Set `json:"waiting,omitempty"` // filter.waiting
}

// Rules are about the bytes of names. In what is stored of them, which is JSON, they have the form
// that trees have (package rawname).
func rawSet(stored *ignore.Set) *ignore.Set {
	set := &ignore.Set{Files: make(map[string]string, len(stored.Files))}
	for dir, text := range stored.Files {
		set.Files[rawname.Raw(dir)] = rawname.Raw(text)
	}
	for _, text := range stored.All {
		set.All = append(set.All, rawname.Raw(text))
	}
	return set
}

// same reports whether two filters are of the same rules.
func (f *filter) same(other *filter) bool {
	return f.text == other.text && f.plain == other.plain && slices.Equal(f.names, other.names)
}

// aside is what is added to the name of a copy of what is ignored, beside its path.
var aside = regexp.MustCompile(`\.conflict-[0-9a-f]{8}(-[0-9]{1,3})?(/|$)`)

// hides reports whether a path is ignored, if it is a directory or not. So is the copy of
// one that was brought out of the way.
func (f *filter) hides(path string, dir bool) bool {
	if hidden(path, f.names) || f.plain && !isPlain(path) {
		return true
	}
	if f.rules == nil {
		return false
	}
	rest, inside := strings.CutPrefix(path, f.local+"/")
	if !inside {
		return false
	}
	rest = rawname.Raw(rest)
	if f.rules.Hides(rest, dir) || f.waiting.Hides(rest, dir) {
		return true
	}
	if !strings.Contains(rest, ".conflict-") {
		return false
	}
	rest = aside.ReplaceAllString(rest, "$2")
	return rest != "" && (f.rules.Hides(rest, dir) || f.waiting.Hides(rest, dir))
}

// hidesSome reports whether a path is ignored if it is a directory, or if it is none.
func (f *filter) hidesSome(path string) bool { return f.hides(path, true) || f.hides(path, false) }

// top is the topmost ignored path at or above a path, "" for none.
func (f *filter) top(path string, dir bool) string {
	if !f.hides(path, dir) {
		return ""
	}
	for p := above(path); p != "/" && f.hides(p, true); p = above(p) {
		path = p
	}
	return path
}

// readsFiles reports whether there are files whose rules count.
func (m *Mirror) readsFiles() bool { return m.cfg.GitIgnore || m.cfg.RulesFile != "" }

// isRules reports whether the file at a local path has rules that may count.
func (m *Mirror) isRules(path string) bool {
	return m.isGitFile(path) || m.isRulesFile(path)
}

func (m *Mirror) isRulesFile(path string) bool {
	return m.cfg.RulesFile != "" && path == m.roots.local+"/"+m.cfg.RulesFile
}

// A ruleFiles has the texts of files with rules, by their local paths.
type ruleFiles map[string]string

// filterOf makes the filter of some files and what the Config says. waiting are files that take the place of some once
// there is room for them: until then what either hides is ignored, so that nothing moves by rules that count on one
// side only.
func (m *Mirror) filterOf(files, waiting ruleFiles) (*filter, error) {
	set, err := m.ruleSet(files)
	if err != nil {
		return nil, err
	}
	all := storedRules{Set: *set}
	if len(waiting) > 0 {
		then := maps.Clone(files)
		maps.Copy(then, waiting)
		if all.Waiting, err = m.ruleSet(then); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(&all)
	if err != nil {
		return nil, err
	}
	// Not nil: that would have the remote leave out what it leaves out for those who do not say.
	f, err := newFilter(m.roots.local, []string{}, string(text))
	if err != nil {
		return nil, err
	}
	f.plain = m.plain
	const limit = changes.MaxIgnored / 2
	names, onlyNames := f.rules.Names(limit)
	if f.waiting != nil {
		more, only := f.waiting.Names(limit)
		names, onlyNames = append(names, more...), onlyNames && only
	}
	comes := slices.Collect(maps.Keys(waiting))
	for _, name := range names {
		name = rawname.Encode(name)
		hides := func(path string) bool { return hidden(path, []string{name}) }
		// The path that stands for the root is no name of anything in it. Files that wait are to be listed.
		if hides("/"+m.roots.local) || hides("/"+m.roots.remote) || slices.ContainsFunc(comes, hides) || len(f.names) == limit {
			onlyNames = false
			continue
		}
		if !slices.Contains(f.names, name) {
			f.names = append(f.names, name)
		}
	}
	for _, name := range m.cfg.Ignore {
		name = rawname.Encode(name)
		if !slices.Contains(f.names, name) {
			f.names = append(f.names, name)
		}
	}
	if onlyNames { // the names say it all
		f.text, f.rules, f.waiting = "", nil, nil
	}
	return f, nil
}

// ruleSet is the set of the rules of some files and of the Config.
func (m *Mirror) ruleSet(files ruleFiles) (*ignore.Set, error) {
	set, size := ignore.Set{Files: map[string]string{}}, 0
	for _, text := range m.cfg.Rules {
		size += len(text)
	}
	for path, text := range files {
		if size += len(path) + len(text); size > maxRuleBytes {
			return nil, errTooManyRules
		}
		if !m.isRulesFile(path) {
			set.Files[m.relative(above(path))] = rawname.Encode(text)
			continue
		}
		if n, err := ignore.CheckText(text); err != nil {
			return nil, &RulesError{path, n, err}
		}
		set.All = append(set.All, rawname.Encode(text))
	}
	for _, text := range m.cfg.Rules {
		set.All = append(set.All, rawname.Encode(text))
	}
	return &set, nil
}

// keptFilter makes the filter of what the state says.
func (m *Mirror) keptFilter() (*filter, error) {
	f, err := newFilter(m.roots.local, slices.Concat([]string{}, m.s.notes.Ignore), m.s.rules.text())
	if err == nil {
		f.plain = m.plain
	}
	return f, err
}

// loadRules reads what is ignored. It is that of the tree as it was settled last.
func (m *Mirror) loadRules(ctx context.Context) error {
	files := ruleFiles{}
	for attempt := 1; m.readsFiles(); attempt++ {
		info, err := m.tree.Info(ctx)
		if err != nil {
			return err
		}
		files, err = m.readRules(ctx)
		if errors.Is(err, tree.ErrUnknownHash) && attempt <= maxVanished { // it has changed since
			if err := m.settle(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		m.rulesRev = info.Rev
		break
	}
	waiting := m.waitingFiles()
	m.unwrittenRules(files, waiting)
	f, err := m.filterOf(files, waiting)
	if m.cfg.KeepRules {
		f, err = m.keptFilter()
	}
	if err != nil {
		return err
	}
	m.files, m.filter, m.incoming, m.waiting = files, f, nil, waiting
	return nil
}

// readRules reads the files with rules that this side has.
func (m *Mirror) readRules(ctx context.Context) (ruleFiles, error) {
	files := ruleFiles{}
	for _, s := range m.cfg.Local.Skipped(m.isRules) {
		if s.Why == changes.Unreadable && len(s.Paths) > 0 {
			return nil, &RulesError{s.Paths[0].Path, 0, fmt.Errorf("it cannot be read: %s", s.Paths[0].Error)}
		}
	}
	if m.cfg.RulesFile != "" {
		text, err := m.readRulesFile(ctx)
		if err != nil {
			return nil, err
		}
		files[m.roots.local+"/"+m.cfg.RulesFile] = text
	}
	if !m.cfg.GitIgnore {
		return files, nil
	}
	f, err := m.filterOf(files, nil)
	if err != nil {
		return nil, err
	}
	// Directories that are ignored are left out as they are found: their files do not count.
	found := &filter{local: f.local, names: f.names, rules: f.rules, plain: f.plain}
	if found.rules == nil {
		found.rules = ignore.NewMatcher(&ignore.Set{})
	}
	for dirs := []string{m.roots.local}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		if dir != m.roots.local && found.hides(dir, true) {
			continue
		}
		below, text, err := m.readDirRules(ctx, dir)
		if err != nil {
			return nil, err
		}
		if text != "" {
			if len(files) >= maxRuleFiles {
				return nil, errTooManyRules
			}
			files[dir+"/"+ignore.FileName] = text
			found.rules.Add(rawname.Raw(m.relative(dir)), text)
		}
		dirs = append(dirs, below...)
	}
	return files, nil
}

// errTooManyRules says that files have more rules than are remembered.
var errTooManyRules = &RulesError{Err: fmt.Errorf("%w: more than %d bytes, or %d files with rules", tree.ErrTooLarge, maxRuleBytes, maxRuleFiles)}

// relative is a local path below the root, without the slash.
func (m *Mirror) relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, m.roots.local), "/")
}

// readDirRules lists the directories that are in one here, and reads its .gitignore.
func (m *Mirror) readDirRules(ctx context.Context, dir string) (dirs []string, text string, err error) {
	for last := ""; ; {
		list, err := m.tree.ReadDir(ctx, dir+"/", last, page)
		if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, tree.ErrNotDirectory) {
			return dirs, text, nil // it has changed
		}
		if err != nil {
			return nil, "", err
		}
		for i := range list {
			last = list[i].Name()
			path := dir + "/" + last
			switch {
			case list[i].Kind == tree.KindDir:
				dirs = append(dirs, path)
			case last == ignore.FileName && list[i].Kind == tree.KindFile: // git follows no link either
				if text, err = m.readRulesText(ctx, path); err != nil {
					return nil, "", err
				}
			}
		}
		if len(list) < page {
			return dirs, text, nil
		}
	}
}

// readRulesText reads a file with rules; "" when it is not there.
func (m *Mirror) readRulesText(ctx context.Context, path string) (string, error) {
	text, err := m.tree.ReadFile(ctx, path, maxRuleBytes)
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, tree.ErrNotDirectory) {
		return "", nil
	}
	if err != nil {
		return "", &RulesError{path, 0, err}
	}
	return string(text), nil
}

// readRulesFile reads Config.RulesFile. A link is followed on the disk.
func (m *Mirror) readRulesFile(ctx context.Context) (string, error) {
	path := m.roots.local + "/" + m.cfg.RulesFile
	e, err := m.tree.Entry(ctx, path)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	switch {
	case err != nil:
		return "", err
	case e.Kind == tree.KindFile:
		return m.readRulesText(ctx, path)
	case e.Kind == tree.KindSymlink && m.cfg.Dir != "":
		f, err := os.Open(filepath.Join(m.cfg.Dir, m.cfg.RulesFile))
		if err != nil {
			return "", &RulesError{path, 0, err}
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxRuleBytes+1))
		if err != nil {
			return "", &RulesError{path, 0, err}
		}
		return string(text), nil // one that is too long is refused with the others
	}
	return "", nil
}

// An incomingFile is a file with rules that a pull brings.
type incomingFile struct {
	rev  int64 // the remote's
	text string
}

// rereadRules reads what is ignored if a file with rules has changed since. It reports whether
// something else is ignored now.
func (m *Mirror) rereadRules(ctx context.Context) (bool, error) {
	if !m.readsFiles() {
		return false, nil
	}
	was, incoming := m.filter, m.incoming
	if changed, err := m.rulesChanged(ctx); err != nil || !changed && incoming == nil && maps.Equal(m.waiting, m.waitingFiles()) {
		return false, err
	}
	if err := m.loadRules(ctx); err != nil {
		return false, err
	}
	for path, in := range incoming {
		if _, waits := m.waiting[path]; !waits && m.files[path] != in.text {
			if m.refused == nil {
				m.refused = map[string]int64{}
			}
			m.refused[path] = in.rev
		}
	}
	return !m.filter.same(was), nil
}

// rulesChanged reports whether a file with rules has changed since they were read, or cannot
// be read now.
func (m *Mirror) rulesChanged(ctx context.Context) (bool, error) {
	if len(m.cfg.Local.Skipped(m.isRules)) > 0 {
		return true, nil
	}
	if !m.cfg.GitIgnore {
		text, err := m.readRulesFile(ctx)
		return err != nil || text != m.files[m.roots.local+"/"+m.cfg.RulesFile], nil //nolint:nilerr // the next to read it fails
	}
	info, err := m.tree.Info(ctx)
	if err != nil || info.Rev == m.rulesRev {
		return false, err
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: tree.At(m.rulesRev)})
	if err != nil {
		return false, err
	}
	for {
		entries, err := list.Next(ctx, page)
		if errors.Is(err, io.EOF) {
			m.rulesRev = list.Current.Rev
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(entries, func(e tree.Entry) bool { return m.isRules(e.Path) }) {
			return true, nil
		}
	}
}

// takeRules has what is ignored now count, if files with rules have changed here.
func (m *Mirror) takeRules(ctx context.Context) error {
	changed, err := m.rereadRules(ctx)
	if err != nil || !changed && !m.rulesMoved && m.waitingStored() {
		return err
	}
	return m.useRules(ctx)
}

// useRules stores what is ignored now.
func (m *Mirror) useRules(ctx context.Context) error {
	next, err := m.ignoring(m.s)
	if err == nil {
		err = m.commit(ctx, next)
	}
	m.rulesMoved = err != nil
	return err
}

// takeIncomingRules has what is ignored count by the files with rules that a pull up to a target
// brings, so that nothing comes that they hide.
func (m *Mirror) takeIncomingRules(ctx context.Context, target tree.Cursor, r *Result) error {
	was := m.filter
	err := m.incomingRules(ctx, target, r)
	if err != nil || m.filter.same(was) && m.waitingStored() {
		return err
	}
	return m.useRules(ctx)
}

// planRules is takeIncomingRules for a Plan: nothing is stored.
func (m *Mirror) planRules(ctx context.Context) error {
	if !m.readsFiles() {
		return nil
	}
	target, err := m.target(ctx)
	if err != nil {
		return err
	}
	if err := m.incomingRules(ctx, target, new(Result)); err != nil {
		return err
	}
	m.s, err = m.ignoring(m.s)
	return err
}

// planIgnored counts what is ignored.
func (m *Mirror) planIgnored(ctx context.Context, p *Plan) error {
	f := *m.filter
	if f.plain = false; f.rules == nil && len(f.names) == 0 { // else they are named
		return nil
	}
	err := m.tree.Walk(ctx, m.roots.local+"/", func(i *tree.FileInfo) error {
		dir := i.Kind == tree.KindDir
		if m.roots.isRoot(i.Path) || !f.hides(i.Path, dir) {
			return nil
		}
		p.IgnoredHere++
		if dir {
			return iofs.SkipDir
		}
		return nil
	})
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	return m.allThere(ctx, []string{}, func(x *tree.Entry) error {
		if f.hides(x.Path, x.Kind == tree.KindDir) && !f.hides(above(x.Path), true) {
			p.IgnoredThere++
		}
		return nil
	})
}

// incomingRules reads the files with rules that a pull up to a target brings. Those that have
// changed here count as they are here.
func (m *Mirror) incomingRules(ctx context.Context, target tree.Cursor, r *Result) error {
	if !m.readsFiles() || m.cfg.Undo || m.cfg.Guard || m.s.peer.Fetch.Compare(target) >= 0 {
		return nil
	}
	changed, err := m.changedRules(ctx, target)
	if err != nil || len(changed) == 0 {
		return err
	}
	full, files := noRoom{}, ruleFiles{}
	err = m.withContent(ctx, changed, full, r, func(gone map[tree.Hash]bool) error {
		texts, err := m.withoutKeeping(ctx, changed, full, gone)
		if err == nil {
			files, err = m.readIncoming(ctx, changed, gone, texts)
		}
		return err
	})
	if err != nil {
		return err
	}
	waiting := ruleFiles{}
	maps.Copy(waiting, m.waiting)
	for i := range changed {
		path := changed[i].Path
		in, is := m.incoming[path]
		if _, waits := waiting[path]; !is || !waits && full.of(&changed[i]) == nil {
			continue
		}
		waiting[path] = in.text // until it is here
		if delete(files, path); m.files[path] != "" {
			files[path] = m.files[path]
		}
	}
	m.filter, err = m.filterOf(files, waiting)
	m.waiting = waiting
	return err
}

// readIncoming reads files with rules that a pull brings, and returns all that there will be. texts is content that is not
// kept here.
func (m *Mirror) readIncoming(ctx context.Context, changed []tree.Entry, gone map[tree.Hash]bool, texts map[tree.Hash][]byte) (ruleFiles, error) {
	files := maps.Clone(m.files)
	m.incoming = map[string]incomingFile{}
	for _, e := range changed {
		if isGone(&e, gone) {
			continue // it has changed since, and comes again; until then its rules are what they were
		}
		var text strings.Builder
		for _, p := range e.Parts {
			data, known := texts[p.Hash]
			if !known {
				var err error
				if data, err = m.forest.Chunk(ctx, p.Hash, nil); err != nil {
					return nil, err
				}
			}
			text.Write(data)
		}
		files[e.Path] = text.String()
		m.incoming[e.Path] = incomingFile{e.Rev, text.String()}
	}
	return files, nil
}

// changedRules lists the files with rules that the remote has made or changed, by local paths.
// One that it has removed counts until it is gone here.
func (m *Mirror) changedRules(ctx context.Context, target tree.Cursor) (list []tree.Entry, err error) {
	f, err := m.fetch(ctx, target)
	if err != nil {
		return nil, err
	}
	defer func() { f.Entries.Close(err) }()
	known := m.known()
	for {
		e, err := f.Entries.Next(ctx)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the remote's changes: %w", err)
		}
		if path, ok := m.roots.toLocal(e.Path); !ok || e.Kind != tree.KindFile || !m.isRules(path) || m.refused[path] == e.Rev || !m.wanted(&e, &known, nil) {
			continue
		}
		if e.Size > maxRuleBytes {
			return nil, &RulesError{e.Path, 0, tree.ErrTooLarge}
		}
		cur, err := m.tree.Entry(ctx, e.Path)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return nil, err
		}
		if err == nil && m.s.changed(cur.Path, cur.Rev) {
			continue
		}
		if list = append(list, e); len(list) > maxRuleFiles {
			return nil, errTooManyRules
		}
	}
}
