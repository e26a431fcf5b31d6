package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// A tree is made below an empty directory, the same each time.
type tree struct {
	name   string
	rounds int
	make   func(dir string) error
	moved  string // a directory of it, which is renamed and then deleted
}

// seed is that of everything that is drawn.
const seed = 12

// text gives content that looks like source: words and lines.
type text struct {
	*rand.Rand
	pool []byte
}

func newText() *text {
	t := &text{Rand: rand.New(rand.NewPCG(seed, seed))}
	words := make([]string, 4096)
	for i := range words {
		word := make([]byte, 2+t.IntN(10))
		for j := range word {
			word[j] = byte('a' + t.IntN(26))
		}
		words[i] = string(word)
	}
	for len(t.pool) < 4<<20 {
		for range 3 + t.IntN(10) {
			// The first words are the frequent ones.
			t.pool = append(t.pool, words[int(float64(len(words))*math.Pow(t.Float64(), 3))]...)
			t.pool = append(t.pool, ' ')
		}
		t.pool[len(t.pool)-1] = '\n'
	}
	return t
}

// write makes a file of size bytes that no other file equals, with the directories above it.
func (t *text) write(path, title string, size int, mode fs.FileMode) error {
	data := make([]byte, 0, size)
	data = append(data, title...)
	data = append(data, '\n')
	for len(data) < size {
		at := t.IntN(len(t.pool))
		data = append(data, t.pool[at:min(at+size-len(data), len(t.pool))]...)
	}
	return write(path, data[:size], mode)
}

func write(path string, data []byte, mode fs.FileMode) error {
	if err := os.WriteFile(path, data, mode); err == nil || !os.IsNotExist(err) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// copied is a part of a source tree, of whose directories one is moved.
func copied(source, moved string) func(dir string) error {
	return func(dir string) error {
		if _, err := os.Stat(filepath.Join(source, moved)); err != nil {
			return err
		}
		return os.CopyFS(filepath.Join(dir, "src"), os.DirFS(source))
	}
}

// equal is n files of 10 KiB, a hundred in a directory.
func equal(n int) func(dir string) error {
	return func(dir string) error {
		t := newText()
		if err := write(filepath.Join(dir, "README"), []byte("the files are in all\n"), 0o644); err != nil {
			return err
		}
		for i := range n {
			name := fmt.Sprintf("all/d%03d/f%02d.txt", i/100, i%100)
			if err := t.write(filepath.Join(dir, name), name, 10<<10, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

// modules makes the node_modules of a project, n files in all. A scope in it, of a ninth of
// them, is what is moved.
type modules struct {
	*text
	dir  string
	left int
	made int
}

// scope is where the packages are that are moved.
const scope = "node_modules/@scope"

func nodeModules(n int) func(dir string) error {
	return func(dir string) error {
		m := &modules{text: newText(), dir: dir}
		m.left = n / 9
		for m.left > 0 {
			if err := m.pack(scope, 0); err != nil {
				return err
			}
		}
		m.left = n - n/9 - 1
		for m.left > 0 {
			if err := m.pack("node_modules", 0); err != nil {
				return err
			}
		}
		return m.write(filepath.Join(dir, "package.json"), "{}", 900, 0o644)
	}
}

// Licences are the same in many packages; so is a file in some hundred others.
var licences = []string{"MIT", "ISC", "Apache-2.0", "BSD-3-Clause", "BSD-2-Clause"}

// pack makes a package below a directory, with packages of its own in some.
func (m *modules) pack(below string, depth int) error {
	m.made++
	dir := fmt.Sprintf("%s/%s-%d", below, []string{"lib", "parse", "core", "util", "plugin", "is"}[m.IntN(6)], m.made)
	if depth == 0 && below != scope && m.IntN(6) == 0 {
		dir = fmt.Sprintf("%s/@org%d/pkg-%d", below, m.IntN(40), m.made)
	}
	licence := licences[m.IntN(len(licences))]
	if err := m.put(dir+"/LICENSE", []byte(licence+"\n"+string(m.pool[:1067])), 0o644); err != nil {
		return err
	}
	if err := m.file(dir+"/package.json", 600+m.IntN(1800)); err != nil {
		return err
	}
	if err := m.file(dir+"/README.md", m.size(3000, 1)); err != nil {
		return err
	}
	// Most packages are small, few have more than a thousand files.
	kinds := []string{".js", ".d.ts", ".js.map", ".mjs", ".json"}
	n := min(m.size(14, 1.6), 3000)
	sub := []string{"dist", "lib", "dist/esm", "dist/cjs", "src", "lib/internal/helpers", "dist/types/api/v1"}
	for i := range n {
		where := fmt.Sprintf("%s/%s", dir, sub[m.IntN(min(len(sub), 1+n/6))])
		if n > 200 {
			where += fmt.Sprintf("/part%d", i/50)
		}
		if err := m.file(fmt.Sprintf("%s/file%d%s", where, i, kinds[m.IntN(len(kinds))]), m.size(1400, 1.6)); err != nil {
			return err
		}
	}
	if m.IntN(12) == 0 && m.left > 0 {
		if err := m.put(dir+"/bin/cli.js", []byte("#!/usr/bin/env node\n"+dir+"\n"), 0o755); err != nil {
			return err
		}
		link := filepath.Join(m.dir, "node_modules", ".bin", fmt.Sprint("cli-", m.made))
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("../"+strings.TrimPrefix(dir, "node_modules/")+"/bin/cli.js", link); err != nil {
			return err
		}
	}
	if depth < 4 && m.IntN(6) == 0 {
		for range 1 + m.IntN(3) {
			if err := m.pack(dir+"/node_modules", depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// size draws from a log-normal distribution, at most 2 MiB.
func (m *modules) size(median, sigma float64) int {
	return int(min(median*math.Exp(sigma*m.NormFloat64()), 2<<20)) + 1
}

func (m *modules) file(name string, size int) error {
	if m.left == 0 {
		return nil
	}
	m.left--
	return m.write(filepath.Join(m.dir, name), name, size, 0o644)
}

func (m *modules) put(name string, data []byte, mode fs.FileMode) error {
	if m.left == 0 {
		return nil
	}
	m.left--
	return write(filepath.Join(m.dir, name), data, mode)
}

// A listing says of each path what is there: its kind, and the size of a file.
type listing struct {
	entries map[string]string
	paths   []string // of the files, in order
	bytes   int64    // of their content
}

// list looks at all that is below a directory.
func list(dir string) (*listing, error) {
	l := &listing{entries: map[string]string{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			l.entries[name] = "directory"
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			l.entries[name] = "link to " + to
		default:
			info, err := d.Info()
			if err != nil {
				return err
			}
			l.entries[name] = fmt.Sprint("file of ", info.Size())
			l.paths = append(l.paths, name)
			l.bytes += info.Size()
		}
		return nil
	})
	return l, err
}

// compareEvery is of how many files the content of one is compared.
const compareEvery = 61

// same returns an error unless a directory has exactly what want lists, which is in from.
func (l *listing) same(from, dir string) error {
	got, err := list(dir)
	if err != nil {
		return err
	}
	for name, kind := range l.entries {
		if got.entries[name] != kind {
			return fmt.Errorf("%s is a %s and should be a %s", name, cmp.Or(got.entries[name], "gap"), kind)
		}
	}
	for name, kind := range got.entries {
		if l.entries[name] == "" {
			return fmt.Errorf("%s is a %s and should not be there", name, kind)
		}
	}
	for i := 0; i < len(l.paths); i += compareEvery {
		a, err := os.ReadFile(filepath.Join(from, l.paths[i]))
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, l.paths[i]))
		if err != nil {
			return err
		}
		if string(a) != string(b) {
			return fmt.Errorf("%s has other content", l.paths[i])
		}
	}
	return nil
}

// appendTo adds a line to n files, evenly spread over all.
func appendTo(dir string, paths []string, n int, line string) error {
	if n = min(n, len(paths)); n == 0 {
		return errors.New("there are no files")
	}
	for i := range n {
		f, err := os.OpenFile(filepath.Join(dir, paths[(2*i+1)*len(paths)/(2*n)]), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line)
		if err2 := f.Close(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
	}
	return nil
}
