package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/rawname"
)

// exitLeftOut is the status of wsd sync when all is the same on both sides but for what
// could not be read, or cannot be synchronised.
const exitLeftOut = 5

// exitHeld is the status of wsd sync when all is the same on both sides but for what is held in
// conflict, and what exitLeftOut stands for.
const exitHeld = 6

// heldInConflict is the reason of paths that are held in conflict, for the exit status.
const heldInConflict changes.SkipReason = "held"

// skippedLines is how many paths are named for one reason without -v.
const skippedLines = 10

// syncSkipped is a "skipped" of --json.
type syncSkipped struct {
	Type  string `json:"type"`
	Side  string `json:"side"` // where it is: "here", "server"
	Why   string `json:"why"`  // "unwritten", "unreadable", "special", "name", "owner"
	Path  string `json:"path,omitempty"`
	Error string `json:"error,omitempty"`
	More  int    `json:"more,omitempty"` // paths that are not named
}

// skippedCount is how many paths are left out.
func skippedCount(sides ...[]changes.Skipped) int {
	n := 0
	for _, side := range sides {
		for _, s := range side {
			n += s.Count
		}
	}
	return n
}

// skippedTexts say what became of a path: here, at the server, and why if the system says
// nothing.
var skippedTexts = map[changes.SkipReason][3]string{
	changes.Unwritten:  {"not written here", "not written at the server", "it is tried again each time"},
	changes.Unreadable: {"not read here", "not read at the server", "no permission"},
	changes.Special:    {"left out here", "left out at the server", "neither file, directory nor link"},
	changes.Disowned:   {"written here", "written at the server", "its owner or group could not be kept"},
	changes.BadName:    {"left out here", "left out at the server", "a name that is too long, or not UTF-8"},
}

// leftOut names what a run has left out.
func (o *syncOutput) leftOut(r *mirror.Result) error {
	here, there := r.Here, r.There
	if r.DisownedHere.Count > 0 {
		here = append(slices.Clone(here), r.DisownedHere)
	}
	if r.DisownedThere.Count > 0 {
		there = append(slices.Clone(there), r.DisownedThere)
	}
	held := r.Held
	if o.job.resolves { // the other paths are not its business
		o.undecided(r.Undecided)
		held = len(r.Undecided)
	}
	return o.skipped(held, here, there)
}

// syncUndecided is an "undecided" of --json.
type syncUndecided struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Why  string `json:"why"` // "unreadable", "special", "noRoom", "lacking", "changed"
	Of   string `json:"of,omitempty"`
}

// undecidedTexts are the "why" of --json, and a text for people, in which %s stands for the path of the version
// here if that is another one.
var undecidedTexts = map[mirror.UndecidedReason][2]string{
	mirror.UndecidedChanged: {"changed", "it has changed once more; run it again"},
	mirror.UndecidedUnseen:  {"unreadable", "the version here%s cannot be read, and may have changed; see who may read it"},
	mirror.UndecidedSpecial: {"special", "there is something here%s that cannot be synchronised, such as a pipe; move it away"},
	mirror.UndecidedUnread:  {"unreadable", "the version here%s would be lost, since it cannot be read and kept; see who may read it, or say --ours"},
	mirror.UndecidedUnkept:  {"noRoom", "the version here%s would be lost, since there is no room to keep it; make room, or say --ours"},
	mirror.UndecidedNoRoom:  {"noRoom", "there is no room here for the server's version; make room, or say --ours"},
	mirror.UndecidedLacking: {"lacking", "the server cannot read its version; see who may read it there, or say --ours"},
}

// undecided names the paths that could not be decided about, and says why.
func (o *syncOutput) undecided(list []mirror.Undecided) {
	for _, u := range list {
		texts := undecidedTexts[u.Why]
		if o.enc != nil {
			out := syncUndecided{Type: "undecided", Path: localName(u.Path), Why: texts[0]}
			if u.Of != "" {
				out.Of = localName(u.Of)
			}
			o.object(out)
			continue
		}
		of := ""
		if u.Of != "" && u.Of != u.Path {
			of = " of " + o.name(u.Of)
		}
		o.line(o.stderr, "not decided: %s: %s", o.name(u.Path), strings.Replace(texts[1], "%s", of, 1))
	}
}

// skipped names what is left out, unless it was named before, and returns what that and paths that are
// held in conflict make of the exit status.
func (o *syncOutput) skipped(held int, here, there []changes.Skipped) error {
	var names strings.Builder
	fmt.Fprint(&names, here, there)
	if now := names.String(); o.skippedBefore != now {
		o.skippedBefore = now
		o.nameSkipped("here", here)
		o.nameSkipped("server", there)
	}
	dryRun := o.job.dryRun
	left := skippedError(dryRun, here, there) != nil
	if o.leftBefore && !left {
		o.note("nothing is left out any more")
	}
	o.leftBefore = left
	err := skippedError(dryRun, here, there, []changes.Skipped{{Why: heldInConflict, Count: held}})
	if failed, ok := errors.AsType[*exitError](err); ok && failed.code == exitHeld && !dryRun {
		return &exitError{exitHeld, withHint(err, "to list them, with the command for each: "+o.job.conflictsCommand())}
	}
	return err
}

func (o *syncOutput) nameSkipped(side string, list []changes.Skipped) {
	for _, s := range list {
		texts, ok := skippedTexts[s.Why]
		if !ok { // of a server that knows more
			texts = [3]string{"left out here", "left out at the server", string(s.Why)}
		}
		what := texts[0]
		if side == "server" {
			what = texts[1]
		}
		paths := s.Paths
		if o.enc == nil && !o.job.verbose {
			paths = paths[:min(len(paths), skippedLines)]
		}
		for _, p := range paths {
			if o.enc != nil {
				o.object(syncSkipped{Type: "skipped", Side: side, Why: string(s.Why), Path: localName(p.Path), Error: p.Error})
				continue
			}
			o.line(o.stderr, "%s: %s: %s", what, o.name(p.Path), safe(firstSet(p.Error, texts[2])))
		}
		more := s.Count - len(paths)
		switch {
		case more <= 0:
		case o.enc != nil:
			o.object(syncSkipped{Type: "skipped", Side: side, Why: string(s.Why), More: more})
		case len(paths) < len(s.Paths):
			o.line(o.stderr, "%s: %d more; -v names up to %d", what, more, changes.MaxSkipped)
		default:
			o.line(o.stderr, "%s: %d more", what, more)
		}
	}
}

// skippedError is the error of a run that has left something out. A file that was replaced and
// lost its owner is not left out. A dry run knows neither how all other paths will be, nor does it hold any.
func skippedError(dryRun bool, sides ...[]changes.Skipped) error {
	unwritten, unread, others, held := 0, 0, 0, 0
	first := ""
	for _, side := range sides {
		for _, s := range side {
			switch s.Why {
			case changes.Unwritten:
				unwritten += s.Count
			case changes.Disowned:
				continue
			case heldInConflict:
				held += s.Count
			case changes.Unreadable:
				unread += s.Count
			case changes.Special, changes.BadName:
				others += s.Count
			default: // a reason of a newer server
				others += s.Count
			}
			if first == "" && len(s.Paths) > 0 {
				first = s.Paths[0].Path
			}
		}
	}
	heldText, rest := " held in conflict", "; all else is the same on both sides"
	if dryRun {
		heldText, rest = " would be held in conflict", ""
	}
	var left []string
	if unwritten > 0 {
		left = append(left, paths(unwritten)+" could not be written")
	}
	if held > 0 {
		left = append(left, paths(held)+heldText)
	}
	if unread > 0 {
		left = append(left, paths(unread)+" could not be read")
	}
	if others > 0 {
		left = append(left, paths(others)+" cannot be synchronised")
	}
	err := errors.New(strings.Join(left, ", ") + rest)
	switch {
	case unwritten > 0:
		return &exitError{exitFailure, withHint(err, "each run tries again; make room, or see who owns the directory")}
	case held > 0:
		return &exitError{exitHeld, err}
	case len(left) > 0:
		return &exitError{exitLeftOut, withHint(err, ignoreHint(first))}
	}
	return nil
}

// ignoreHint says how a path is left alone from then on.
func ignoreHint(path string) string {
	const longest = 64
	name := localName(path)
	if path == "" || name == "." || len(name) > longest || safe(name) != name || rawname.Has(name) {
		return "a pattern in " + ignoreFile + ", or --" + flagIgnore + " PATTERN, leaves such a path alone; the status is 0 then"
	}
	pattern := "/" + strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `).Replace(name)
	return fmt.Sprintf("the line %s in %s, or --%s %s, leaves that path alone; the status is 0 then", pattern, ignoreFile, flagIgnore, quoted(pattern))
}
