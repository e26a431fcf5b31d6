package main

import (
	"fmt"
	"strings"

	"github.com/wsd-dev/wsd/client/mirror"
)

// syncKept is a "kept" of --json.
type syncKept struct {
	Type  string   `json:"type"`
	Path  string   `json:"path"`
	Side  string   `json:"side"`  // where it stays: "here", "server"
	Names []string `json:"names"` // first of the paths that hold it up
	More  int      `json:"more,omitempty"`
	// NotSent: nothing was removed; it is here, and the server has something else at names that is ignored.
	NotSent bool `json:"notSent,omitempty"`
}

// stayed tells of what a removal has left.
func (o *syncOutput) stayed(s mirror.Stayed) {
	if o.enc != nil {
		out := syncKept{Type: "kept", Path: localName(s.Path), Side: "here", Names: []string{}, More: s.More, NotSent: s.NotSent}
		if s.AtRemote {
			out.Side = "server"
		}
		for _, name := range s.Names {
			out.Names = append(out.Names, localName(name))
		}
		o.object(out)
		return
	}
	o.line(o.stderr, "kept: %s", o.stayedText(s))
}

func (o *syncOutput) stayedText(s mirror.Stayed) string {
	if s.NotSent {
		return o.notSentText(s)
	}
	where := "removed at the server, not here"
	if s.AtRemote {
		where = "removed here, not at the server"
	}
	if len(s.Names) == 1 && s.Names[0] == s.Path && s.More == 0 {
		return fmt.Sprintf("%s: %s: it has changed since", o.name(s.Path), where)
	}
	names := make([]string, 0, len(s.Names))
	for _, name := range s.Names {
		names = append(names, o.name(name))
	}
	were := "were"
	if len(names) == 1 && s.More == 0 {
		were = "was"
	}
	text := strings.Join(names, ", ")
	if s.More > 0 {
		text += fmt.Sprintf(" and %d more", s.More)
	}
	return fmt.Sprintf("%s: %s: %s %s never synchronised", o.name(s.Path), where, text, were)
}

// notSentText is about a path here at which the server has something that is ignored.
func (o *syncOutput) notSentText(s mirror.Stayed) string {
	what := "of that name"
	if len(s.Names) == 1 && s.Names[0] != s.Path {
		what = "called " + o.name(s.Names[0])
	}
	return fmt.Sprintf("%s: here, and not sent: the server has something else %s, which is ignored", o.name(s.Path), what)
}
