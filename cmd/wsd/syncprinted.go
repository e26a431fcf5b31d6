package main

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/rawname"
)

// Commands that a synchronisation prints work as they are when they are pasted into a shell: they have
// the directory, the server and the flags of the run that prints them.

// repeatedFlags are those that another command about the same two sides needs as well. Those with
// true have a path. The patterns, whose order counts, are not among them.
var repeatedFlags = []struct {
	name string
	path bool
}{
	{"token-file", true},
	{"tls-ca", true},
	{"tls-cert", true},
	{"tls-key", true},
	{"known-executors", true},
	{"client-identity", true},
	{"state", true},
	{"remote-path", false},
	{"mirror", false},
	{"one-way-safe", false},
	{"allow-home", false},
	{"max-delete", false},
	{flagGitignore, false},
	{flagLostAge, false},
	{flagLostBytes, false},
	{flagGarbageBytes, false},
	{flagGarbageShare, false},
	{flagAllowCode, false},
	{flagAllowSetuid, false},
}

// repeat notes which of the flags were given, as words of a shell.
func (f *syncFlags) repeat(given *pflag.FlagSet) {
	f.repeated, f.rulesOf = nil, nil
	for _, flag := range repeatedFlags {
		if set := given.Lookup(flag.name); set != nil && set.Changed {
			words := flagWords(set, flag.path)
			f.repeated = append(f.repeated, words...)
			if !flag.path { // else it says how to reach the server, or which state it is
				f.rulesOf = append(f.rulesOf, strings.Join(words, " "))
			}
		}
	}
	for _, rule := range f.rules.given {
		value := rule.value
		if rule.flag == flagIgnoreFile {
			value = absolute(value)
		}
		words := []string{"--" + rule.flag, quoted(value)}
		f.repeated, f.rulesOf = append(f.repeated, words...), append(f.rulesOf, strings.Join(words, " "))
	}
}

// flagWords are a flag as it is typed.
func flagWords(flag *pflag.Flag, path bool) []string {
	value := flag.Value.String()
	switch {
	case flag.Value.Type() == "bool" && value == "true":
		return []string{"--" + flag.Name}
	case flag.Value.Type() == "bool":
		return []string{"--" + flag.Name + "=" + value}
	case path:
		value = absolute(value)
	}
	return []string{"--" + flag.Name, quoted(value)}
}

// again is a command about the two sides of the run, with a path of this side.
func (j *syncJob) again(what string, file string, flags ...string) string {
	words := append([]string{"wsd sync"}, flags...)
	if what != "" {
		words = slices.Insert(words, 1, what)
	}
	words = append(append(words, j.flags.repeated...), quoted(file))
	if j.target != nil && j.target.running == nil {
		words = append(words, quoted(j.target.typed()))
	}
	return strings.Join(words, " ")
}

// againWith runs the synchronisation with the server, and the directory there, that another state of the directory is
// about.
func (j *syncJob) againWith(was *syncAbout) string {
	words := append([]string{"wsd sync"}, j.flags.repeated...)
	if i := slices.Index(words, "--remote-path"); i >= 0 {
		words = slices.Delete(words, i, i+2)
	}
	if was.Part != "" {
		words = append(words, "--remote-path", quoted(firstSet(was.Mount, path.Join(disk.DefaultMount, was.Part))))
	}
	return strings.Join(append(words, quoted(j.local.dir), quoted(was.URL)), " ")
}

// typed is the URL of the server, without a password.
func (t *syncTarget) typed() string {
	if u, err := url.Parse(t.url); err != nil || u.User != nil {
		return t.server()
	}
	return t.url
}

// afterwards says when a printed command works: a watch has the state open, and may not answer.
func (j *syncJob) afterwards() string {
	if j.watch && j.asks == nil {
		return " once this watch has ended"
	}
	return ""
}

// syncCommand runs the synchronisation again, and conflictsCommand lists what is held in conflict.
func (j *syncJob) syncCommand() string      { return j.again("", j.local.dir) }
func (j *syncJob) conflictsCommand() string { return j.again("conflicts", j.local.dir) }

// resolveCommand decides about a path that is held in conflict.
func (j *syncJob) resolveCommand(path string) string {
	file := j.file(path)
	flags := []string{"--ours"}
	if j.flags.store == "" && j.nearer(file) {
		flags = append(flags, "--state", quoted(j.local.db.Path()))
	}
	return j.again("resolve", file, flags...)
}

// nearer reports whether a directory between the one of the run and a file has a state with the server.
func (j *syncJob) nearer(file string) bool {
	for at := filepath.Dir(file); len(at) > len(j.local.dir); at = filepath.Dir(at) {
		store, err := syncStore(at, j.target.identity(j.flags.remotePath))
		if err != nil {
			return false
		}
		if _, err := os.Stat(store); err == nil {
			return true
		}
	}
	return false
}

// restoreCommand brings a version back that did not stay.
func (j *syncJob) restoreCommand(version int64, path string) string {
	file := j.file(path)
	return fmt.Sprintf("wsd sync restore --version %d%s %s", version, j.stateFlag(filepath.Dir(file)), quoted(file))
}

// lostCommand lists the versions that are kept here.
func (j *syncJob) lostCommand() string {
	if flag := j.stateFlag(j.local.dir); flag != "" {
		return "wsd sync lost" + flag
	}
	return "wsd sync lost " + quoted(j.local.dir)
}

// stateFlag names the state of the run, unless it is the only one that is found for a directory.
func (j *syncJob) stateFlag(dir string) string {
	file := absolute(j.flags.store)
	if file == "" {
		if found, err := statesOf(dir); err == nil && len(found) == 1 && found[0] == j.local.db.Path() {
			return ""
		}
		file = j.local.db.Path()
	}
	return " --state " + quoted(file)
}

// file is the file of a path in the tree.
func (j *syncJob) file(path string) string {
	return filepath.Join(j.local.dir, filepath.FromSlash(rawname.Raw(localName(path))))
}

// quoted is a word as a shell reads it. It has no bytes that a terminal would obey.
func quoted(word string) string {
	plain := word != ""
	for i := range len(word) {
		c := word[i]
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/._-+,:@%", c) >= 0)
	}
	switch {
	case plain:
		return word
	case safe(word) == word:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			b.WriteString("\\" + string(c))
		case c >= ' ' && c < 0x7f:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "\\x%02x", c)
		}
	}
	return b.String() + "'"
}
