package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// syncOutput tells what a synchronisation does.
type syncOutput struct {
	job    *syncJob
	stdout io.Writer
	stderr io.Writer
	enc    *json.Encoder // nil without --json
	draws  bool          // it shows a bar

	mu   sync.Mutex
	bar  *progress // nil when none is shown
	told string    // the trouble that was told last
	// skippedBefore is what was left out when it was named last.
	skippedBefore string
	leftBefore    bool // and whether something was
	heldBefore    int  // how many paths were held in conflict then
	// kept are changes that are told in the order of their paths; nil when they are told
	// as they come.
	kept     *[]mirror.Change
	keptSent []mirror.Move
	most     int // up to how many of them are told one by one, 0 for all
}

func newSyncOutput(j *syncJob) *syncOutput {
	o := &syncOutput{job: j, stdout: j.app.stdout, stderr: j.app.stderr}
	o.draws = !j.quiet && !j.asJSON && isTerminal(o.stderr)
	if j.asJSON {
		o.enc = json.NewEncoder(o.stdout)
		o.enc.SetEscapeHTML(false)
	} else if !j.watch {
		o.kept = new([]mirror.Change)
	}
	if j.local != nil {
		j.local.forgot = o.forgot
	}
	return o
}

// progress draws how much has moved.
func (o *syncOutput) progress(p mirror.Progress) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.draws {
		return
	}
	if o.bar == nil {
		o.bar = newProgress(o.stderr)
		o.bar.start(0, 0)
	}
	o.bar.set(int(p.Pushed+p.Pulled), int(p.ToPush+p.ToPull), p.BytesOut+p.BytesIn)
}

// set is what the progress is at.
func (p *progress) set(files, total int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files, p.total, p.bytes = files, total, bytes
}

// endBar leaves the bar as it is.
func (o *syncOutput) endBar() {
	o.mu.Lock()
	bar := o.bar
	o.bar = nil
	o.mu.Unlock()
	if bar != nil {
		bar.close()
	}
}

func (o *syncOutput) close() { o.endBar() }

// line writes a line beside the bar.
func (o *syncOutput) line(w io.Writer, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil {
		o.bar.clear()
	}
	_ = say(w, format, args...)
}

// note writes a line for people on standard error.
func (o *syncOutput) note(format string, args ...any) {
	if o.enc == nil {
		o.line(o.stderr, format, args...)
	}
}

func (o *syncOutput) object(v any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.enc.Encode(v) // who read it may be gone; the synchronisation goes on
}

// localName is a path of the local tree as the user knows it, in the form that trees have
// (package rawname): --json has it as it is.
func localName(path string) string {
	if path == localMount {
		return "."
	}
	return strings.TrimPrefix(path, localMount+"/")
}

// name is localName for people.
func (o *syncOutput) name(path string) string { return safe(rawname.Show(localName(path))) }

// syncChange is a "change" of --json.
type syncChange struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Kind string `json:"kind"`
	What string `json:"what"` // "created", "modified", "deleted", "touched"
	Size int64  `json:"size"`
}

// change tells of a change here.
func (o *syncOutput) change(c mirror.Change) {
	if o.kept != nil {
		*o.kept = append(*o.kept, c)
		return
	}
	o.tell(c)
}

// syncSent is a "sent" of --json.
type syncSent struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Kind string `json:"kind"` // "file", "dir", "symlink", "delete"
	Size int64  `json:"size"`
}

// sent tells of what has gone to the server.
func (o *syncOutput) sent(m mirror.Move) {
	if o.kept != nil {
		o.keptSent = append(o.keptSent, m)
		return
	}
	o.tellSent(m)
}

func (o *syncOutput) tellSent(m mirror.Move) {
	switch {
	case o.enc != nil:
		o.object(syncSent{"sent", localName(m.Path), m.Kind.String(), m.Size})
	case m.Kind == tree.KindDelete:
		o.line(o.stdout, "deleted at the server %s", o.name(m.Path))
	default:
		o.line(o.stdout, "sent %s", o.name(m.Path))
	}
}

// tellKept tells of the changes that were kept, those here first.
func (o *syncOutput) tellKept() {
	if o.kept == nil {
		return
	}
	defer func() {
		slices.SortFunc(o.keptSent, func(a, b mirror.Move) int { return strings.Compare(a.Path, b.Path) })
		for _, m := range o.keptSent {
			o.tellSent(m)
		}
		o.keptSent = nil
	}()
	list := *o.kept
	slices.SortFunc(list, func(a, b mirror.Change) int { return strings.Compare(a.Path, b.Path) })
	*o.kept = nil
	if o.most > 0 && len(list) > o.most && o.enc == nil {
		count := map[mirror.ChangeKind]int{}
		for _, c := range list {
			count[c.What]++
		}
		touched := ""
		if n := count[mirror.Touched]; n > 0 {
			touched = fmt.Sprintf(", %d touched", n)
		}
		o.line(o.stdout, "changed here: %s (%d created, %d modified, %d deleted%s)", paths(len(list)), count[mirror.Created], count[mirror.Modified], count[mirror.Deleted], touched)
		return
	}
	for _, c := range list {
		o.tell(c)
	}
}

func (o *syncOutput) tell(c mirror.Change) {
	if o.enc != nil {
		o.object(syncChange{"change", localName(c.Path), c.Kind.String(), c.What.String(), c.Size})
		return
	}
	o.line(o.stdout, "%s %s", c.What, o.name(c.Path))
}

// syncVersion is a version of --json.
type syncVersion struct {
	Kind   string   `json:"kind"`
	Mode   string   `json:"mode,omitempty"`
	MTime  string   `json:"mtime,omitempty"`
	Size   int64    `json:"size,omitempty"`
	Hash   string   `json:"hash,omitempty"`
	Chunks []string `json:"chunks,omitempty"`
	Target string   `json:"target,omitempty"`
}

func versionOf(v *mirror.Version) syncVersion {
	out := syncVersion{Kind: v.Kind.String(), Size: v.Size, Hash: v.Hash, Target: v.Target}
	if v.Kind != tree.KindDelete {
		out.Mode, out.MTime = fmt.Sprintf("%04o", v.Mode), v.MTime.UTC().Format(time.RFC3339Nano)
	}
	for _, h := range v.Chunks {
		out.Chunks = append(out.Chunks, h.String())
	}
	return out
}

// syncConflict is a "conflict" of --json.
type syncConflict struct {
	Type   string      `json:"type"`
	Path   string      `json:"path"`
	Local  syncVersion `json:"local"`
	Remote syncVersion `json:"remote"`
	By     string      `json:"by,omitempty"`
	Kept   string      `json:"kept"` // "local", "remote", "both", "none"
	Copy   string      `json:"copy,omitempty"`
	Lost   int64       `json:"lost,omitempty"` // the number of the version that was not kept
	Held   bool        `json:"held,omitempty"`
	Waits  bool        `json:"waits,omitempty"` // the server keeps its version until there is room here
	Gone   bool        `json:"gone,omitempty"`  // the server's version is kept nowhere any more
}

func (o *syncOutput) conflict(c mirror.Conflict) { o.tellConflict(&c, false) }

// tellConflict reports a conflict. With planned nothing has been done about it, nor noted.
func (o *syncOutput) tellConflict(c *mirror.Conflict, planned bool) {
	if o.enc != nil {
		out := syncConflict{"conflict", localName(c.Path), versionOf(&c.Local), versionOf(&c.Remote), "", c.Kept.String(), "", c.Lost, c.Held, c.Waits, c.Gone}
		if c.By != "" {
			out.By = localName(c.By)
		}
		if c.Copy != "" {
			out.Copy = localName(c.Copy)
		}
		o.object(out)
		return
	}
	kept := "; kept "
	if planned {
		kept = "; would keep "
	}
	switch c.Kept {
	case mirror.KeptRemote:
		kept += "the server's"
	case mirror.KeptLocal:
		kept += "the one here"
	case mirror.KeptBoth:
		if c.Copy == "" {
			kept += "both"
		} else {
			kept += "the server's, and the one here as " + o.name(c.Copy)
		}
	case mirror.KeptNone:
		kept = ""
	}
	switch {
	case c.Held && planned:
		kept = "; would be held"
	case c.Held:
		kept = "; held; to decide" + o.job.afterwards() + ", with --ours (the one here), --theirs or --both: " + o.job.resolveCommand(c.Path)
	case c.Waits:
		kept += "; there is no room here for the other one, which the server keeps: each run tries to fetch it"
	case c.Gone && c.Remote.Kind == tree.KindDelete:
		kept += "; there was no room here for that one: it is lost"
	case c.Gone:
		kept += "; the server does not have the content of the other one any more: it is lost"
	case c.Lost != 0 && c.Copy == "":
		kept += "; to bring the other one back" + o.job.afterwards() + ": " + o.job.restoreCommand(c.Lost, lostPath(c))
	case planned && (c.Kept == mirror.KeptRemote && c.Local.Kind != tree.KindDelete || c.Kept == mirror.KeptLocal && c.Remote.Kind != tree.KindDelete):
		kept += ", and the other one as a lost version"
	}
	by := ""
	if c.By != "" {
		by = " (" + o.name(c.By) + ")"
	}
	here, there := versionTexts(c)
	o.line(o.stderr, "conflict: %s: here %s, at the server %s%s%s", o.name(c.Path), here, there, by, kept)
}

// lostPath is the path of the version of a conflict that was not kept.
func lostPath(c *mirror.Conflict) string {
	if c.Kept == mirror.KeptLocal {
		return firstSet(c.By, c.Path)
	}
	return c.Path
}

// versionTexts are the versions of a conflict in a few words: the modes, where nothing else
// tells them apart, and digits of the hash, where size and time do not.
func versionTexts(c *mirror.Conflict) (here, there string) {
	if c.OfModes() {
		return fmt.Sprintf("mode %04o", c.Local.Mode), fmt.Sprintf("mode %04o", c.Remote.Mode)
	}
	here, there = versionText(&c.Local), versionText(&c.Remote)
	if c.Local.Kind == tree.KindDelete {
		here = "nothing" // it was removed, or with --one-way-safe was never there
	}
	if c.Gone && c.Remote.Kind == tree.KindDelete {
		there = "a version that it keeps no more"
	}
	if here == there && c.Local.Hash != "" {
		here, there = here+" ("+shortHash(c.Local.Hash)+")", there+" ("+shortHash(c.Remote.Hash)+")"
	}
	return here, there
}

// shortHash is as much of a hash as tells two versions apart for a person.
func shortHash(hash string) string {
	const digits = 8
	return hash[:min(len(hash), digits)]
}

// versionText is a version in a few words.
func versionText(v *mirror.Version) string {
	switch v.Kind {
	case tree.KindDelete:
		return "removed"
	case tree.KindFile:
		text := byteCount(v.Size)
		if !v.MTime.IsZero() {
			text += " of " + v.MTime.Local().Format(time.DateTime)
		}
		return text
	case tree.KindSymlink:
		return "a link to " + safe(rawname.Show(v.Target))
	case tree.KindDir:
		return "a directory"
	}
	return "something that cannot be synchronised"
}

// conflicts tells of conflicts for which a synchronisation fails.
// nothing is what did not happen because of them.
func (o *syncOutput) conflicts(e *mirror.ConflictError, nothing string) error {
	for _, c := range e.Conflicts {
		o.conflict(c)
	}
	if e.More > 0 {
		o.line(o.stderr, "and %d more", e.More)
	}
	err := errors.New(nothing + ", since there are conflicts")
	if e.Moved {
		err = errors.New("there are conflicts, which came up after other paths had been synchronised; none was decided")
	}
	return &exitError{exitConflicts, withHint(err, "say --on-conflict both, theirs, ours or hold, or make them the same")}
}

// trouble tells of an error after which there is another attempt, once.
func (o *syncOutput) trouble(err error) {
	o.endBar()
	text := errorText(err)
	o.mu.Lock()
	known := text == o.told
	o.told = text
	o.mu.Unlock()
	if !known {
		o.line(o.stderr, "wsd: %s; trying again", text)
	}
}

// troubled reports whether the last trouble is not over.
func (o *syncOutput) troubled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told != ""
}

// untold has trouble report any error again.
func (o *syncOutput) untold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = ""
}

// syncResult is the "result" of --json.
type syncResult struct {
	Type       string `json:"type"`
	Pushed     int    `json:"pushed"` // entries, without those that the server had before, or could not write
	Pulled     int    `json:"pulled"`
	Changed    int    `json:"changed"` // of the pulled ones, here, without those that could not be written
	ObjectsOut int    `json:"objectsOut"`
	ObjectsIn  int    `json:"objectsIn"`
	BytesOut   int64  `json:"bytesOut"`
	BytesIn    int64  `json:"bytesIn"`
	Conflicts  int    `json:"conflicts"`
	Withheld   int    `json:"withheld"`  // paths that did not come over, or not with all of their modes
	Kept       int    `json:"kept"`      // paths that were removed on one side and stay on the other
	Held       int    `json:"held"`      // paths that are held in conflict
	Undone     int    `json:"undone"`    // versions of the server that were undone there, and are kept here
	NotUndone  int    `json:"notUndone"` // those that are kept here and are still there, since the server could not write their paths, or what is here could not be read
	InStep     bool   `json:"inStep"`
	Skipped    int    `json:"skipped"` // paths that one side left out
	Late       int    `json:"late"`    // paths that runs before were to write here
}

// syncWithheld is a "withheld" of --json.
type syncWithheld struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Kind string `json:"kind"`           // of the server's version, "delete" for none
	Why  string `json:"why"`            // "code", "mode"
	Mode string `json:"mode,omitempty"` // the bits that were left out
}

// withheld tells of what did not come over.
func (o *syncOutput) withheld(w mirror.Withheld) {
	if o.enc != nil {
		out := syncWithheld{Type: "withheld", Path: localName(w.Path), Kind: w.Kind.String(), Why: "code"}
		if w.Bits != 0 {
			out.Why, out.Mode = "mode", fmt.Sprintf("%04o", w.Bits)
		}
		o.object(out)
		return
	}
	o.line(o.stderr, "withheld: %s: %s", o.name(w.Path), withheldText(w.Bits))
}

// result tells of a run, and returns what the paths that it has left out make of the exit
// status. The object with the result is the last one of --json.
func (o *syncOutput) result(r *mirror.Result) error {
	o.endBar()
	o.tellKept()
	o.untold()
	left := o.leftOut(r)
	o.summary(r)
	return left
}

// watching says that the first look of a watch, or the first one after a lost connection, is over.
func (o *syncOutput) watching() {
	if !o.job.quiet {
		o.note("watching both sides for changes; ^C ends it")
	}
}

// held reports how many paths are held in conflict, once, where that is not the end of the run.
func (o *syncOutput) held(r *mirror.Result) {
	if o.heldBefore != r.Held && (o.job.watch || o.job.resolves) {
		if r.Held > 0 {
			o.note("held in conflict, and left as they are on both sides: %s; to list them%s: %s", paths(r.Held), o.job.afterwards(), o.job.conflictsCommand())
		} else {
			o.note("nothing is held in conflict any more")
		}
	}
	o.heldBefore = r.Held
}

// undone tells people of versions of the server that were undone there.
func (o *syncOutput) undone(r *mirror.Result) {
	if n := r.Undone - r.NotUndone; n > 0 {
		what := "changed at the server, and undone there"
		if o.job.resolves || o.job.first == fromHere {
			what = "replaced or removed at the server"
		}
		o.note("%s: %s, kept here; to list what is kept%s: %s", what, versionsText(n), o.job.afterwards(), o.job.lostCommand())
	}
	if r.NotUndone > 0 {
		o.note("changed at the server, and not undone there, since it could not be written there, or read here: %s; each run tries again; the server's versions are kept here too; to list them%s: %s", paths(r.NotUndone), o.job.afterwards(), o.job.lostCommand())
	}
}

// syncCount is an "undone" or a "held" of exec --sync --json.
type syncCount struct {
	Type  string `json:"type"`
	Count int    `json:"count"` // versions of the server that are kept here, or paths
}

func (o *syncOutput) summary(r *mirror.Result) {
	late := 0
	if l := o.job.local; l != nil && l.disk != nil {
		late = l.disk.TakeLate()
	}
	o.held(r)
	o.undone(r)
	sent := r.Pushed - r.Same - r.Unwritten
	moved := r.Pushed > r.Same || r.Changed > 0 || r.Conflicts > 0 || r.Withheld > 0 || r.Stayed > 0 || late > 0
	if o.job.watch && !moved {
		return
	}
	if o.enc != nil {
		o.object(syncResult{"result", sent, r.Pulled, r.Changed - r.UnwrittenHere, r.ObjectsOut, r.ObjectsIn, r.BytesOut, r.BytesIn, r.Conflicts, r.Withheld, r.Stayed, r.Held, r.Undone - r.NotUndone, r.NotUndone, r.InStep, skippedCount(r.Here, r.There), late})
		return
	}
	if o.job.quiet {
		return
	}
	if late > 0 {
		o.note("written here now, as runs before were to: %s", paths(late))
	}
	if !moved {
		o.line(o.stdout, "nothing has changed")
		return
	}
	o.line(o.stdout, "to the server: %s, %s; from there: %s, %s", paths(sent), byteCount(r.BytesOut), paths(r.Changed-r.UnwrittenHere), byteCount(r.BytesIn))
}

// forgot tells of lost versions that are not kept any more.
func (o *syncOutput) forgot(t lost.Trimmed) {
	var names []string
	for _, path := range t.Names {
		names = append(names, localName(path))
	}
	o.line(o.stderr, "forgotten, since all lost versions have more than --%s %s: %s of before%s",
		flagLostBytes, &o.job.flags.lost.bytes, versionsText(t.TooLarge), namesText(names, t.TooLarge-len(names)))
}

func versionsText(n int) string {
	if n == 1 {
		return "1 version"
	}
	return fmt.Sprintf("%d versions", n)
}

func paths(n int) string {
	if n == 1 {
		return "1 path"
	}
	return fmt.Sprintf("%d paths", n)
}

// syncMove is a "move" of --json.
type syncMove struct {
	Type string `json:"type"`
	To   string `json:"to"` // "local", "remote"
	Path string `json:"path"`
	Kind string `json:"kind"` // "file", "dir", "symlink", "delete"
	Size int64  `json:"size"`
}

// syncPlan is the "result" of --dry-run --json.
type syncPlan struct {
	Type         string `json:"type"`
	ToRemote     int    `json:"toRemote"`
	ToLocal      int    `json:"toLocal"`
	BytesToSend  int64  `json:"bytesToSend"`
	BytesToFetch int64  `json:"bytesToFetch"`
	Conflicts    int    `json:"conflicts"`
	Withheld     int    `json:"withheld"`
	Anew         bool   `json:"anew"`
	Skipped      int    `json:"skipped"`
	IgnoredHere  int    `json:"ignoredHere"` // a directory is one, with all that is in it
	IgnoredThere int    `json:"ignoredThere"`
}

// plan prints what would move.
func (o *syncOutput) plan(ctx context.Context, m *mirror.Mirror) error {
	tell := func(m mirror.Move) error {
		to, arrow := "local", "<"
		if m.ToRemote {
			to, arrow = "remote", ">"
		}
		if o.enc != nil {
			return o.enc.Encode(syncMove{"move", to, localName(m.Path), m.Kind.String(), m.Size})
		}
		return say(o.stdout, "%s %s %s", arrow, m.Kind, o.name(m.Path))
	}
	leaves := 0
	if c := o.job.leaves; c != nil {
		for path := range c.Leaves() {
			leaves++
			if err := tell(mirror.Move{Path: path, Kind: tree.KindDelete}); err != nil {
				return err
			}
		}
	}
	p, err := m.Plan(ctx, func(m mirror.Move) error {
		if o.job.leaves != nil && m.ToRemote {
			return nil // it goes before anything is sent
		}
		return tell(m)
	})
	if err != nil {
		return err
	}
	if leaves > 0 {
		o.note("only here, and would be removed: %s, kept as lost versions", filesText(leaves))
	}
	if p.Undone > 0 {
		o.note("would be replaced or removed at the server, and kept here: %s", versionsText(p.Undone))
	}
	if o.job.leaves != nil {
		p.ToRemote, p.BytesToSend, p.ToLocal = 0, 0, p.ToLocal+leaves
	}
	switch {
	case o.job.makes == nil:
	case p.ToRemote > 0:
		o.made("made", "would make the directory %s at the server: nothing is there yet", o.job.makes)
	default:
		o.made("missing", missingThere, o.job.makes)
	}
	for i := range p.Conflicts {
		o.tellConflict(&p.Conflicts[i], true)
	}
	if p.MoreConflicts > 0 && o.enc == nil {
		o.line(o.stderr, "and %d more", p.MoreConflicts)
	}
	for _, w := range p.Withheld {
		o.withheld(w)
	}
	if p.MoreWithheld > 0 && o.enc == nil {
		o.line(o.stderr, "and %d more", p.MoreWithheld)
	}
	left := o.skipped(p.Held, p.Here, p.There)
	if p.TooMany != nil {
		many := o.tooMany(p.TooMany)
		o.note("without --dry-run this would end with status %d: %v", exitRefused, many)
	}
	if o.enc != nil {
		return errors.Join(o.enc.Encode(syncPlan{"result", p.ToRemote, p.ToLocal, p.BytesToSend, p.BytesToGet, len(p.Conflicts) + p.MoreConflicts, len(p.Withheld) + p.MoreWithheld, p.Anew, skippedCount(p.Here, p.There), p.IgnoredHere, p.IgnoredThere}), left)
	}
	if p.Anew {
		o.line(o.stderr, "the server's store is another one than before: all is compared anew")
	}
	if !o.job.quiet {
		o.line(o.stderr, "to the server: %s, %s; from there: %s, %s", paths(p.ToRemote), byteCount(p.BytesToSend), paths(p.ToLocal), byteCount(p.BytesToGet))
		if p.IgnoredHere+p.IgnoredThere > 0 {
			o.line(o.stderr, "ignored: %s here, %s at the server", paths(p.IgnoredHere), paths(p.IgnoredThere))
		}
	}
	return left
}
