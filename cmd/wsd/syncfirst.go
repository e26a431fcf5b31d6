package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// How two sides are brought together that were never in step: the values of --from, and
// --merge.
const (
	fromHere   = "here"
	fromThere  = "there"
	firstMerge = "merge"
)

// firstFlag is the flag for one of those.
func firstFlag(first string) string {
	if first == firstMerge {
		return "--merge"
	}
	return "--from " + first
}

// exitRefused is the status of a synchronisation that asks for a flag before it changes
// anything.
const exitRefused = exitConflicts

// refused is an error that asks for a flag.
func refused(hint, format string, args ...any) error {
	return &exitError{exitRefused, withHint(fmt.Errorf(format, args...), hint)}
}

// isRefused reports whether an error asks for a flag.
func isRefused(err error) bool {
	exit, ok := errors.AsType[*exitError](err)
	return ok && exit.code == exitRefused
}

// syncContact is a "contact" of --json.
type syncContact struct {
	Type     string `json:"type"`
	ToRemote int    `json:"toRemote"` // files
	ToLocal  int    `json:"toLocal"`
	Differ   int    `json:"differ"`
	Same     int    `json:"same"`
	Cut      bool   `json:"cut,omitempty"` // a first run was cut off before the server's answer
	// The first names of those.
	ToRemoteNames []string `json:"toRemoteNames"`
	ToLocalNames  []string `json:"toLocalNames"`
	DifferNames   []string `json:"differNames"`
}

// isGone reports whether an error says that the server has removed the directory that both sides had.
func isGone(err error) bool {
	root, ok := errors.AsType[*mirror.RootError](err)
	return ok && root.Gone()
}

// refuseRoot says what to do about a server that has no directory at the place that is synchronised.
func (o *syncOutput) refuseRoot(e *mirror.RootError) error {
	root, path, what := safe(rawname.Show(e.Root)), safe(rawname.Show(e.Path)), e.Thing()
	hint := "--from here makes it again with what is here, --max-delete 100% has all that is here go too"
	switch {
	case !e.Gone() && e.Path == e.Root:
		return refused("move the "+what+" away at the server, or name a directory with --remote-path", "%s is a %s at the server, and no directory; nothing was changed", root, what)
	case !e.Gone():
		return refused("move the "+what+" away at the server, or name another --remote-path", "there is no directory %s at the server, where %s is a %s; nothing was changed", root, path, what)
	case e.RenamedTo == "":
		what = "removed"
	default:
		to := safe(rawname.Show(e.RenamedTo))
		what = "renamed to " + to
		if o.job.flags.remotePath != "" {
			hint += "; --remote-path " + quoted(rawname.Raw(e.RenamedTo+strings.TrimPrefix(e.Root, e.Path))) + " goes on there"
		}
	}
	return refused(hint, "the directory %s was %s at the server, and %s was in step with it; nothing was changed", path, what, safe(o.job.local.dir))
}

// meet looks at two sides that were never in step, and refuses to mix what they have unless
// a flag says how. It goes on as an earlier run has begun that did not come to its end.
func (j *syncJob) meet(ctx context.Context, m *mirror.Mirror) error {
	if err := j.meetReplaced(ctx, m); err != nil || j.met {
		return err
	}
	asked := j.flags.from
	if j.flags.merge {
		asked = firstMerge
	}
	first, err := m.First(ctx)
	if err != nil {
		return err
	}
	if first != "" {
		if err := j.goesOn(first, asked); err != nil {
			return err
		}
		asked = first
	}
	hint := map[string]string{fromHere: "--from there brings what the server has", fromThere: "--from here sends what is here"}[asked]
	if first != "" {
		hint = j.anew()
	}
	if asked == firstMerge {
		if err := m.Root(ctx); err != nil && !isGone(err) { // else what is taken note of says more
			return err
		}
		j.first, j.met = firstMerge, true
		return nil
	}
	j.blank = false
	if asked == "" {
		if j.blank, err = m.Blank(ctx); j.blank || err != nil {
			j.met = j.blank
			return err // there is nothing to mix
		}
	}
	c, err := m.Contact(ctx)
	if err != nil {
		return err
	}
	if c == nil && asked == fromHere {
		if err = m.Root(ctx); err != nil && !isGone(err) {
			return err
		}
	}
	switch {
	case isGone(err):
		j.first = fromHere // it is made again
	case c == nil && asked != "":
		return refused("leave --from out; --mirror makes the server what is here; "+j.anew(),
			"%s and the server have been in step before, and --from is about the first time", j.local.dir)
	case c == nil:
	case asked == fromHere:
		if c.Here+c.Differ+c.Same == 0 {
			return refused(hint, "%s has no files, and all of the server's would be removed", j.local.dir)
		}
		if c.NewerThere > 0 && j.flags.from == "" {
			return j.refuseNewerThere(c)
		}
		j.first = fromHere
	case asked == fromThere:
		if c.There+c.Differ+c.Same == 0 {
			return refused(hint, "the server has no files, and all in %s would be removed", j.local.dir)
		}
		if c.Newer > 0 && j.flags.from == "" {
			return j.refuseNewer(c)
		}
		if limit := &j.flags.maxDelete; limit.given && !limit.allows(c.Here, c.Here+c.Differ+c.Same) {
			return j.out.tooMany(&mirror.DeletesError{Count: c.Here, Of: c.Here + c.Differ + c.Same, Names: c.HereNames})
		}
		j.first = fromThere
		if err := j.yield(ctx, m, c); err != nil {
			return err
		}
	case c.Here+c.Differ+c.Same == 0 && c.There > 0 && j.flags.mirror && (!j.flags.maxDelete.given || !j.flags.maxDelete.allows(c.There, c.There)):
		return refused("leave --mirror out to bring what the server has; if all of it is to go, say --max-delete 100%",
			"%s has no files and was never in step with the server, where --mirror would remove %s%s; nothing was changed", j.local.dir, filesText(c.There), j.thereText(c))
	case c.Here+c.Differ+c.Same == 0 && c.There > 0 && j.flags.safe:
		return refused("leave --one-way-safe out to bring what the server has; --merge has all of it held in conflict",
			"%s has no files and was never in step with the server, and --one-way-safe brings none of %s%s; nothing was changed", j.local.dir, filesText(c.There), j.thereText(c))
	case c.Here+c.Differ+c.Same > 0 && c.There+c.Differ+c.Same > 0 && c.Here+c.There+c.Differ > 0:
		return j.out.refuseContact(c)
	default:
		j.blank = c.There+c.Differ+c.Same == 0
	}
	j.met = true
	return nil
}

// thereText names what only the server has.
func (*syncJob) thereText(c *mirror.Contact) string { return localNames(c.ThereNames, c.There) }

// meetAgain is meet after an error, which it returns unless that says that the server is blank no
// longer.
func (j *syncJob) meetAgain(ctx context.Context, m *mirror.Mirror, err error) error {
	if !errors.Is(err, mirror.ErrNotBlank) {
		return err
	}
	j.met = false
	return j.meet(ctx, m)
}

// goesOn says that the run goes on with what an earlier one has begun, or refuses if it is
// asked for something else.
func (j *syncJob) goesOn(first, asked string) error {
	other := ""
	switch {
	case asked != "" && asked != first:
		other = firstFlag(asked)
	case j.flags.mirror && first != fromHere:
		other = "--mirror"
	case j.flags.safe && first == fromThere:
		other = "--one-way-safe"
	}
	if other != "" {
		return refused("leave "+other+" out to go on; "+j.anew(),
			"an earlier run has begun to bring %s and the server together with %s and did not come to its end: %s cannot take its place", j.local.dir, firstFlag(first), other)
	}
	j.out.line(j.out.stderr, "going on with %s, since an earlier run with it did not come to its end", firstFlag(first))
	return nil
}

// refuseNewerThere names paths at the server that an earlier --from here is not about, and that a run which goes on with it
// would undo.
func (j *syncJob) refuseNewerThere(c *mirror.Contact) error {
	dir := safe(j.local.dir)
	return refused("--from here has that removed or replaced there too, and kept here as lost versions; to keep it instead, move it away at the server, run this again, and move it back",
		"an earlier run has begun to make the server what is in %s, with --from here, and did not come to its end: %s new or changed at the server since then%s would be removed or replaced there; nothing was changed",
		dir, paths(c.NewerThere), localNames(c.NewerThereNames, c.NewerThere))
}

// localNames is namesText for the first of some local paths.
func localNames(first []string, of int) string {
	names := make([]string, len(first))
	for i, name := range first {
		names[i] = localName(name)
	}
	return namesText(names, of-len(names))
}

// refuseNewer names what an earlier --from there is not about, and a run that goes on with it would remove or replace.
func (j *syncJob) refuseNewer(c *mirror.Contact) error {
	dir := safe(j.local.dir)
	return refused("--from there has that removed or replaced too, and kept as lost versions; to send it instead, move it out of "+dir+", run this again, and move it back",
		"an earlier run has begun to make %s what the server has, with --from there, and did not come to its end: %s new or changed here since then%s would be removed or replaced; nothing was changed",
		dir, paths(c.Newer), localNames(c.NewerNames, c.Newer))
}

// anew is a hint.
func (j *syncJob) anew() string { return j.local.anew() }

// anew says how all that is known of both sides is forgotten, and what goes with it.
func (l *syncLocal) anew() string {
	file := quoted(l.db.Path())
	return "to begin anew, remove " + file + ", and the lost versions with it; to list those: wsd sync lost --state " + file
}

// yield removes what only this side has.
func (j *syncJob) yield(ctx context.Context, m *mirror.Mirror, c *mirror.Contact) error {
	if j.dryRun {
		j.leaves = c
		return nil
	}
	n, err := m.Yield(ctx, c, fromThere)
	if err == nil && n > 0 {
		j.out.note("only here, and removed: %s, kept as lost versions; to list what is kept%s: %s", filesText(n), j.afterwards(), j.out.job.lostCommand())
	}
	return err
}

// refuseContact says what there is on both sides.
func (o *syncOutput) refuseContact(c *mirror.Contact) error {
	local := func(names []string) []string {
		out := make([]string, len(names))
		for i, name := range names {
			out[i] = localName(name)
		}
		return out
	}
	out := syncContact{
		Type: "contact", ToRemote: c.Here, ToLocal: c.There, Differ: c.Differ, Same: c.Same, Cut: c.Cut,
		ToRemoteNames: local(c.HereNames), ToLocalNames: local(c.ThereNames), DifferNames: local(c.DifferNames),
	}
	if o.enc != nil {
		o.object(out)
	}
	named := func(names []string, of int) string { return namesText(names, of-len(names)) }
	differ := "differ"
	if c.Differ == 1 {
		differ = "differs"
	}
	why, hint := "", o.job.meetHint()
	if c.Cut {
		why = ", since the first run was cut off before the server's answer, and files have changed there since"
		hint = "after such a run --merge goes on: what differs is a conflict, what was removed there comes again. " + hint
	}
	return refused(hint, "%s and the server both have files and were never in step%s: %s would go to the server%s, %d would come from there%s, %d %s%s; nothing was changed",
		safe(o.job.local.dir), why, filesText(c.Here), named(out.ToRemoteNames, c.Here), c.There, named(out.ToLocalNames, c.There), c.Differ, differ, named(out.DifferNames, c.Differ))
}

// meetHint says what a first contact may be asked to do.
func (j *syncJob) meetHint() string {
	const here = "--from here makes the server what is here"
	switch {
	case j.flags.mirror:
		return here + "; without --mirror, --merge brings both together and --from there makes " + safe(j.local.dir) + " what the server has"
	case j.flags.safe:
		return "--merge sends what is here and holds in conflict what differs or only the server has, " + here + "; nothing comes from there with --one-way-safe"
	}
	return "--merge brings both together, " + here + ", --from there makes " + safe(j.local.dir) + " what the server has"
}

func filesText(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// namesText names some paths, and how many there are besides.
func namesText(names []string, more int) string {
	if len(names) == 0 {
		return ""
	}
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = safe(rawname.Show(name))
	}
	text := " (" + strings.Join(shown, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ")"
}

// checkPlace refuses directories that are hardly meant, unless a flag says that they are.
func (f *syncFlags) checkPlace(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && !f.create:
		return refused("--create makes it; is the path right?", "%s does not exist", dir)
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	}
	if f.allowHome {
		return nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return err
	}
	if real == "/" {
		return refused("--allow-home lets it be; is the path right?", "%s is the root of all files", dir)
	}
	for _, home := range homes() {
		for at := home; ; at = filepath.Dir(at) {
			if above, err := os.Stat(at); err == nil && os.SameFile(info, above) {
				if at == home {
					return refused("--allow-home lets it be; is the path right?", "%s is your home directory, with all keys and settings that are in it", dir)
				}
				return refused("--allow-home lets it be; is the path right?", "%s holds your home directory %s", dir, home)
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return nil
}

// homes are the home directories of the user, without links. "/" is none.
func homes() []string {
	list := []string{os.Getenv("HOME")}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		list = append(list, u.HomeDir)
	}
	var out []string
	for _, home := range list {
		if real, err := filepath.EvalSymlinks(home); err == nil && filepath.IsAbs(real) && real != "/" {
			out = append(out, real)
		}
	}
	return out
}

// A deleteLimit is --max-delete: how many files may be removed at a side.
type deleteLimit struct {
	given   bool
	count   int
	percent int // with count < 0
}

// askAbove is up to how many files of a side may all be removed unless --max-delete is given.
const askAbove = 50

// Type implements pflag.Value.
func (*deleteLimit) Type() string { return "limit" }

// String implements pflag.Value.
func (l *deleteLimit) String() string {
	switch {
	case !l.given:
		return ""
	case l.count < 0:
		return strconv.Itoa(l.percent) + "%"
	default:
		return strconv.Itoa(l.count)
	}
}

// Set implements pflag.Value.
func (l *deleteLimit) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || percent && n > 100 {
		return errors.New("want a number of files, or a share of them such as 10%")
	}
	*l = deleteLimit{given: true, count: int(n)}
	if percent {
		l.count, l.percent = -1, int(n)
	}
	return nil
}

// all reports whether it was said that anything may go.
func (l *deleteLimit) all() bool { return l.given && l.count < 0 && l.percent == 100 }

// allows reports whether n of so many files may be removed.
func (l *deleteLimit) allows(n, of int) bool {
	switch {
	case !l.given:
		return of <= askAbove || n <= of/2
	case l.count < 0:
		return n*100 <= of*l.percent
	default:
		return n <= l.count
	}
}

// syncTooMany is a "tooMany" of --json.
type syncTooMany struct {
	Type  string `json:"type"`
	At    string `json:"at"` // "local", "remote"
	Count int    `json:"count"`
	Of    int    `json:"of"`
	// Before of Count went in the minute before.
	Before int      `json:"before,omitempty"`
	Names  []string `json:"names"`
}

// tooMany says that too much would be removed.
func (o *syncOutput) tooMany(e *mirror.DeletesError) error {
	out := syncTooMany{Type: "tooMany", At: "local", Count: e.Count, Of: e.Of, Before: e.Before}
	where := "here"
	if e.Remote {
		out.At, where = "remote", "at the server"
	}
	for _, name := range e.Names {
		out.Names = append(out.Names, localName(name))
	}
	if o.enc != nil {
		o.object(out)
	}
	if e.Before > 0 {
		return refused("--max-delete 100% lets all of it go, --dry-run lists what is left to go",
			"%d of %s would be removed %s within a minute%s: %d of them went before, and nothing was changed now", e.Count, filesText(e.Of), where, namesText(out.Names, 0), e.Before)
	}
	return refused("--max-delete 100% lets all of them go, --dry-run lists them",
		"%d of %s would be removed %s%s, and none was", e.Count, filesText(e.Of), where, namesText(out.Names, e.Count-len(e.Names)))
}

// checkEmptied refuses a directory that had files and has nothing now, or nothing but names
// that begin with a dot: more likely it is not the one that was meant, or not mounted, than
// that all is to be removed at the server. It reports whether the user has said that it is.
func (l *syncLocal) checkEmptied(ctx context.Context, t *tree.Tree, limit *deleteLimit) (emptied bool, err error) {
	info, err := t.Info(ctx)
	if err != nil || info.Files == 0 {
		return false, err
	}
	if begun, err := mirror.Begun(ctx, t, ""); err != nil || !begun {
		return err == nil, err // the server has had none of them
	}
	if limit.given && limit.allows(int(info.Files), int(info.Files)) {
		return true, nil
	}
	list, err := os.ReadDir(l.dir)
	if err != nil {
		return false, err
	}
	left := ""
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), ".") {
			return false, nil
		}
		if left == "" {
			left = " but " + e.Name()
		}
	}
	if left != "" {
		more, err := hadMore(ctx, t)
		if err != nil || !more {
			return false, err
		}
	}
	had, err := disk.Files(ctx, t, localMount)
	if err != nil || had == 0 {
		return false, err // it never had any: they are still to be written
	}
	return false, refused("if all of it is to go at the server too, say --max-delete 100%; "+l.anew(),
		"%s had %s when it was last synchronised, and has nothing now%s", l.dir, filesText(had), safe(left))
}

// hadMore reports whether a tree has a name that does not begin with a dot.
func hadMore(ctx context.Context, t *tree.Tree) (bool, error) {
	for last := ""; ; {
		const page = 256
		list, err := t.ReadDir(ctx, localMount, last, page)
		if err != nil {
			return false, err
		}
		for i := range list {
			if last = list[i].Name(); !strings.HasPrefix(last, ".") {
				return true, nil
			}
		}
		if len(list) < page {
			return false, nil
		}
	}
}
