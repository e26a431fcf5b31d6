package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Texts from the other side (names, errors, commands, versions) must not control the
// terminal that they are printed on, forge a line, or hide what they are. All output for
// people passes through this file; --json has the bytes as they are, and so has what a
// command or file itself consists of.

// safe returns text as part of one line: '?' stands for each character that controls a
// terminal or the direction of text, ends a line or cannot be seen, and for each byte that
// is no UTF-8.
func safe(text string) string {
	plain := true
	for i := range len(text) {
		plain = plain && text[i] >= ' ' && text[i] < 0x7f
	}
	if plain {
		return text
	}
	var b strings.Builder
	before := ' '
	for _, r := range strings.ToValidUTF8(text, "\x00") {
		if unprintable(r, before) {
			b.WriteByte('?')
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// unprintable reports whether a character is none that safe keeps. before is the one before
// it.
func unprintable(r, before rune) bool {
	switch r {
	case '\u2028', '\u2029', // they end a line
		'\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u3164', '\uffa0': // they have no width, or are blank
		return true
	case '\u200c', '\u200d': // in scripts and emoji that need them
		return before < unicode.MaxLatin1
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// safeText is safe for a line of a file, in which tabs are usual. Not on a terminal it is
// what the file has, as far as that is one line.
func safeText(text string, tty bool) string {
	if !tty {
		return strings.ReplaceAll(text, "\n", "?")
	}
	parts := strings.Split(text, "\t")
	for i := range parts {
		parts[i] = safe(parts[i])
	}
	return strings.Join(parts, "\t")
}

// safeError is an error in one line; errors that were joined are separated by semicolons.
func safeError(text string) string {
	text = strings.ReplaceAll(text, "\t", " ")
	if !strings.Contains(text, "\n") {
		return safe(text)
	}
	var parts []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, safe(line))
		}
	}
	return strings.Join(parts, "; ")
}

// say prints one line.
func say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, safeError(fmt.Sprintf(format, args...)))
	return err
}

// row prints one row of a table, whose columns are separated by tabs.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = safe(fmt.Sprint(cell))
	}
	fmt.Fprintln(w, strings.Join(texts, "\t"))
}
