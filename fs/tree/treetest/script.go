package treetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
)

// run does what the lines of a script say, each in an edit of its own. A line that ends
// in "=> CODE" must fail with that code. In a line a word may be quoted.
//
//	write PATH TEXT       PutFile
//	mkdir PATH            mkdirs PATH
//	symlink TARGET PATH   link OLD NEW
//	rm PATH               rmr PATH
//	mv OLD NEW            chmod MODE PATH
//	file PATH MODE TEXT   dir PATH MODE    lnk PATH TARGET    del PATH    Apply, as of a peer
//	file! …, dir! …, lnk! …    Apply what was changed here, with tombs
//	share                 a peer holds a cursor from here on
func (b *bench) run(script string) {
	b.Helper()
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line, want, _ := strings.Cut(line, " => ")
		before := b.rev()
		err := b.do(words(b, line))
		if got := code(err); got != want {
			b.Fatalf("%s: %v; want %q", line, err, want)
		}
		if after := b.rev(); want != "" && after != before {
			b.Errorf("%s: failed, and the revision went from %d to %d", line, before, after)
		}
	}
}

// code is the name of an error, or its text when it has none.
func code(err error) string {
	if err == nil {
		return ""
	}
	if c := tree.Code(err); c != "" {
		return c
	}
	return err.Error()
}

func words(t interface{ Fatal(...any) }, line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatal(line, err)
			}
			w, _ := strconv.Unquote(q)
			out, line = append(out, w), line[len(q):]
			continue
		}
		w, rest, _ := strings.Cut(line, " ")
		out, line = append(out, w), rest
	}
	return out
}

func (b *bench) do(w []string) error {
	b.Helper()
	w = append(w, "", "", "")
	mode := func(s string) uint32 {
		m, err := strconv.ParseUint(s, 8, 32)
		if err != nil {
			b.Fatal(err)
		}
		return uint32(m)
	}
	how := tree.SkipSame
	verb, here := strings.CutSuffix(w[0], "!")
	if here {
		how |= tree.WriteTombs
	}
	if verb, here = strings.CutSuffix(verb, "~"); here {
		how |= tree.RealParents
	}
	entry := tree.Entry{Path: w[1], MTime: b.clock.Time}
	var parts []tree.Part
	switch verb {
	case "write":
		parts = b.stage(w[2])
	case "file":
		entry.Kind, entry.Mode, entry.Parts, entry.Size = tree.KindFile, mode(w[2]), b.stage(w[3]), int64(len(w[3]))
	case "dir":
		entry.Kind, entry.Mode = tree.KindDir, mode(w[2])
	case "lnk":
		entry.Kind, entry.Mode, entry.Target = tree.KindSymlink, tree.LinkMode, w[2]
	case "del":
		entry.Kind = tree.KindDelete
	case "share":
		return b.tree.Share(b.Context())
	}
	_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error {
		switch verb {
		case "write":
			return e.PutFile(w[1], tree.File{Parts: parts})
		case "mkdir":
			return e.Mkdir(w[1], 0o755, false)
		case "mkdirs":
			return e.Mkdir(w[1], 0o755, true)
		case "symlink":
			return e.Symlink(w[1], w[2])
		case "link":
			return e.Link(w[1], w[2])
		case "touch":
			_, err := e.Touch(w[1])
			return err
		case "rm":
			return e.Remove(w[1], false)
		case "rmr":
			return e.Remove(w[1], true)
		case "mv":
			return e.Rename(w[1], w[2])
		case "chmod":
			return e.Chmod(w[2], mode(w[1]))
		}
		if entry.Kind == 0 {
			return errors.New("no such verb")
		}
		_, err := e.Apply(&entry, how)
		return err
	})
	return err
}

// listing is all of the tree, a line for each path below the root:
//
//	d /dir 755
//	f /dir/file 644 text
//	l /link -> target
func (b *bench) listing() string {
	b.Helper()
	var infos []tree.FileInfo
	err := b.tree.Walk(b.Context(), "/", func(i *tree.FileInfo) error {
		infos = append(infos, *i)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	var out strings.Builder
	for _, i := range infos[1:] {
		switch i.Kind {
		case tree.KindFile:
			text, err := b.tree.ReadFile(b.Context(), i.Path, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("f %s %o %s", i.Path, i.Mode, text)))
		case tree.KindSymlink:
			fmt.Fprintf(&out, "l %s -> %s\n", i.Path, i.Target)
		default:
			fmt.Fprintf(&out, "d %s %o\n", i.Path, i.Mode)
		}
	}
	return out.String()
}

// since lists the changes after a cursor, a line for each:
//
//	+1 file /path
//	+2 delete /path
//
// with the revision counted from rev.
func (b *bench) since(after tree.Cursor, rev int64, ignore ...string) string {
	b.Helper()
	c, err := b.tree.Changes(b.Context(), tree.ChangesQuery{After: after, Ignore: ignore})
	if err != nil {
		b.Fatal(err)
	}
	return b.drain(c, rev)
}

func (b *bench) drain(c *tree.Changes, rev int64) string {
	b.Helper()
	var out strings.Builder
	for e, err := range c.All(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		out.WriteString(shown(&e, rev) + "\n")
	}
	return out.String()
}

// shown is an entry as a line, with its revision counted from rev.
func shown(e *tree.Entry, rev int64) string {
	line := fmt.Sprintf("+%d %s %s", e.Rev-rev, e.Kind, e.Path)
	if e.RenamedTo != "" {
		line += " to " + e.RenamedTo
	}
	return line
}

// lines trims what a test has written indented.
func lines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
