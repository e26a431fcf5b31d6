package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// does runs commands in the directory of a side: mv, rm, mkdir and write.
func (p *place) does(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		f := strings.Fields(line)
		at := filepath.Join(p.dir, f[1])
		var err error
		switch f[0] {
		case "mv":
			err = os.Rename(at, filepath.Join(p.dir, f[2]))
		case "rm":
			err = os.RemoveAll(at)
		case "mkdir":
			err = os.MkdirAll(at, 0o755)
		default:
			p.write(f[1], f[2])
		}
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
	}
}

// F2: what is ignored in directories that were renamed, or removed, twice between two runs goes along
// or stays, and is never removed.
func TestF2RenamedTwice(t *testing.T) {
	for name, script := range map[string][]string{
		"and one in it":           {"mv d e", "mv e/s e/q"},
		"and one out of it":       {"mv d e", "mv e/s q"},
		"one out of it before":    {"mv d/s q", "mv d e", "mv q e/q"},
		"one in it before":        {"mv d/s d/q", "mv d e"},
		"over again":              {"mv d e", "mv e g"},
		"and back":                {"mv d e", "mv e/s q", "mv e d", "mv q d/s"},
		"and another in its name": {"mv d e", "mv e/s e/q", "mkdir e/s", "write e/s/new 1"},
		"and removed":             {"mv d e", "rm e/s"},
		"and removed below":       {"mv d e", "rm e/s/t"},
		"swapped":                 {"mv d/s x", "mv d/u d/s", "mv x d/u"},
		"swapped with its parent": {"mv d/s x", "mv d s", "mv x d"},
	} {
		for _, here := range []bool{true, false} {
			side := map[bool]string{true: "kept here", false: "kept there"}[here]
			for rules, change := range map[string]func(*Config){
				"a name":    func(c *Config) { c.Ignore = []string{".env"} },
				"a pattern": func(c *Config) { c.Rules = []string{"*.env"} },
			} {
				t.Run(name+"/"+side+"/"+rules, func(t *testing.T) {
					var stayed []string
					p := newPair(t)
					p.local.does("write d/code 1", "write d/s/c 2", "write d/s/t/c 3", "write d/u/c 4", "write other 5")
					p.start(Both)
					cfg := p.m.cfg
					cfg.Stayed = func(s Stayed) { stayed = append(stayed, s.Path) }
					change(&cfg)
					p.m = New(cfg)
					if _, err := p.sync(); err != nil {
						t.Fatal(err)
					}
					keeps, moves := p.remote, p.local
					if here {
						keeps, moves = p.local, p.remote
					}
					keeps.does("write d/.env E1", "write d/s/.env E2", "write d/s/t/.env E3", "write d/u/.env E4")
					moves.does(script...)
					for range 2 {
						if r, err := p.sync(); err != nil || !r.InStep {
							t.Fatalf("%+v, %v", r, err)
						}
					}
					all := keeps.files()
					for i := range 4 {
						if secret := fmt.Sprintf("=E%d", i+1); strings.Count(all, secret) != 1 {
							t.Errorf("%s is not there once: %s", secret, all)
						}
					}
					// A directory that stays where it was is named, or is above it.
					for _, file := range strings.Fields(all) {
						dir, secret, ok := strings.Cut(file, "/.env=")
						_, err := os.Stat(filepath.Join(moves.dir, dir))
						if ok && err != nil && strings.HasPrefix(dir, "d") && !slices.ContainsFunc(stayed, func(path string) bool {
							return strings.HasPrefix("/w/"+dir+"/", path+"/")
						}) {
							t.Errorf("%s stays in %s, which is not named: %v", secret, dir, stayed)
						}
					}
				})
			}
		}
	}
}
