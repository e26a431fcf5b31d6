package fs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// grepBuffer is read at a time; a line may be up to maxGrepLine long, what is
	// beyond counts as further lines.
	grepBuffer  = 256 << 10
	maxGrepLine = 4 << 20
	// maxLineText is how much of a line a match tells.
	maxLineText = 4096
)

// lineMatcher finds the lines of files that match an expression.
type lineMatcher struct {
	re      *regexp.Regexp
	literal []byte // instead of re, if the expression is one
	maxSize int64
	// perLine: the expression looks at the ends of the text, so that each line must
	// be looked at by itself; atLineEnd: only when lines end in CR LF.
	perLine, atLineEnd bool
}

func newLineMatcher(ctx context.Context, text string, ignoreCase bool, maxSize int64) (*lineMatcher, error) {
	flags := "(?m:"
	if ignoreCase {
		flags = "(?mi:"
	}
	re, parsed, err := compileExpression(ctx, flags, text, ")")
	if err != nil {
		return nil, err
	}
	m := &lineMatcher{re: re, maxSize: maxSize}
	if prefix, complete := re.LiteralPrefix(); complete && prefix != "" && !strings.Contains(prefix, "\n") {
		m.literal = []byte(prefix)
	}
	m.inspect(parsed)
	return m, nil
}

func (m *lineMatcher) inspect(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpEndText:
		m.perLine = true
	case syntax.OpEndLine:
		m.atLineEnd = true
	}
	for _, sub := range re.Sub {
		m.inspect(sub)
	}
}

// find returns the start of the first match in text, -1 if there is none.
func (m *lineMatcher) find(text []byte) int {
	if m.literal != nil {
		return bytes.Index(text, m.literal)
	}
	if loc := m.re.FindIndex(text); loc != nil {
		return loc[0]
	}
	return -1
}

// room is what an answer can still take.
type room struct{ matches, bytes int }

// findings are those of one file.
type findings struct {
	path    string
	matches []protocol.GrepMatch // without Path
	more    bool                 // there was no room for all
	skipped bool                 // binary or too large
	err     error

	room room
	line uint64 // lines passed
}

// file searches the file at path, if ctx lasts so long.
func (m *lineMatcher) file(ctx context.Context, path string, left room) *findings {
	f := &findings{path: path, room: left}
	file, info, err := openLeaf(path)
	if err != nil {
		f.err = err
		return f
	}
	defer file.Close()
	if info.Size > m.maxSize {
		f.skipped = true
		return f
	}
	f.err = m.scan(io.LimitReader(whileReader{ctx, file}, m.maxSize), f)
	if f.skipped {
		f.matches, f.more = nil, false
	}
	return f
}

// scan searches what r gives, a region of whole lines at a time.
func (m *lineMatcher) scan(r io.Reader, f *findings) error {
	buf := make([]byte, 0, grepBuffer)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		if bytes.IndexByte(buf[len(buf):len(buf)+n], 0) >= 0 {
			f.skipped = true // binary
			return nil
		}
		buf = buf[:len(buf)+n]
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return err
		}
		if !atEnd && len(buf) < cap(buf) {
			continue
		}
		end := bytes.LastIndexByte(buf, '\n') + 1
		switch {
		case atEnd:
			end = len(buf)
		case end == 0 && cap(buf) < maxGrepLine:
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
			continue
		case end == 0:
			end = len(buf)
		}
		m.region(buf[:end], f)
		if atEnd || f.more {
			return nil
		}
		buf = append(buf[:0], buf[end:]...)
	}
}

// region searches whole lines.
func (m *lineMatcher) region(text []byte, f *findings) {
	perLine := m.perLine || m.atLineEnd && bytes.Contains(text, crlf)
	for len(text) > 0 {
		start := 0
		if !perLine {
			// No line matches before the first match in the text: a match that lies in
			// one line is one in the text.
			at := m.find(text)
			if at < 0 {
				f.line += countLines(text)
				return
			}
			start = bytes.LastIndexByte(text[:at], '\n') + 1
			f.line += countLines(text[:start])
		}
		end, next := len(text), len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end, next = start+i, start+i+1
		}
		f.line++
		line := bytes.TrimSuffix(text[start:end], []byte{'\r'})
		if at := m.find(line); at >= 0 && !f.add(line, at) {
			return
		}
		text = text[next:]
	}
}

var crlf = []byte("\r\n")

// countLines counts the lines of text, the last one without its end included.
func countLines(text []byte) uint64 {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return uint64(n)
}

// add notes a match; false when there is no room for it.
func (f *findings) add(line []byte, at int) bool {
	text := line[:min(len(line), maxLineText)]
	f.room.bytes -= len(text) + entryOverhead
	if f.room.matches == 0 || f.room.bytes < 0 {
		f.more = true
		return false
	}
	f.room.matches--
	f.matches = append(f.matches, protocol.GrepMatch{
		Line: f.line, Column: uint64(at) + 1, Text: strings.ToValidUTF8(string(text), "\uFFFD"),
	})
	return true
}
