package sandbox

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A mounted is a directory of a file system and where it is mounted.
type mounted struct{ fs, root, point string }

// mounts are the mounts of file systems that are mounted more than once, so that a file
// may have several paths.
type mounts []mounted

// parseMounts reads a /proc/PID/mountinfo.
func parseMounts(text string) mounts {
	var all mounts
	count := make(map[string]int)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		m := mounted{fields[2], unescapeOctal(fields[3]), unescapeOctal(fields[4])}
		all = append(all, m)
		count[m.fs]++
	}
	return slices.DeleteFunc(all, func(m mounted) bool { return count[m.fs] == 1 })
}

// unescapeOctal replaces what mountinfo writes as \NNN.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// candidates returns the paths that may lead to the same file as path by other mounts.
// Mounts on top of each other make some of them wrong.
func (m mounts) candidates(path string) []string {
	var names []string
	for _, from := range m {
		rest, ok := slashpath.Cut(path, from.point)
		if !ok {
			continue
		}
		inside := slashpath.Join(from.root, rest)
		for _, to := range m {
			rest, ok := slashpath.Cut(inside, to.root)
			if !ok || to.fs != from.fs {
				continue
			}
			if name := slashpath.Join(to.point, rest); name != path && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// otherPaths returns the other paths of the file at path. lstat looks at a path.
func (m mounts) otherPaths(path string, lstat func(string) (os.FileInfo, error)) []string {
	names := m.candidates(path)
	if len(names) == 0 {
		return nil
	}
	info, err := lstat(path)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool {
		other, err := lstat(name)
		return err != nil || !os.SameFile(info, other)
	})
}

// restrictOtherPaths restricts files by all their paths where the machine has a directory
// mounted more than once, as a workspace is at its mount point.
func (b *builder) restrictOtherPaths() error {
	all, err := readMounts()
	if err != nil {
		return unavailablef("look at the mounts: %v", err)
	}
	if len(all) == 0 {
		return nil
	}
	var more []Rule
	for _, r := range b.rules {
		if r.Access == Write {
			continue
		}
		for _, at := range all.otherPaths(r.Path, b.lstat) {
			access := accessIn(b.rules, at)
			_, named := findRule(b.rules, at)
			switch {
			case access == Write && r.Access == Read && !named:
			case (access == Write || access == Read) && r.Access == Deny:
			default:
				continue
			}
			b.kinds[at], b.own[at], b.fleeting[at] = b.kinds[r.Path], b.own[r.Path], true
			more = append(more, Rule{at, r.Access})
		}
	}
	b.addRules(more)
	for _, l := range slices.Clone(b.held) {
		b.held = append(b.held, all.otherPaths(l, b.lstat)...)
	}
	for _, a := range slices.Clone(b.absent) {
		for _, dir := range all.otherPaths(slashpath.Dir(a.missing), b.lstat) {
			if at := slashpath.Join(dir, slashpath.Base(a.missing)); !b.policy.has(at) {
				b.absent = append(b.absent, absentRule{Rule{at, a.rule.Access}, at})
			}
		}
	}
	return nil
}
