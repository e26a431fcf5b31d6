package main

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/wsd-dev/wsd/fs/lineage"
)

// A place is a directory that is synchronised, and a path in it.
type place struct {
	dir string // absolute, without links
	rel string // "." for the directory itself
}

func (p place) file() string { return filepath.Join(p.dir, p.rel) }

// placesOf are the places that a typed path may stand for, the likeliest first. is says which directories
// are synchronised. Links are followed above such a directory and at it. Below it they are files of the tree:
// the path may be one that was there before the link was. A path that comes through a link from elsewhere stands last.
func placesOf(typed string, is func(dir string) (bool, error)) ([]place, error) {
	abs, err := filepath.Abs(typed)
	if err != nil {
		return nil, err
	}
	var list []place
	for _, path := range []string{abs, filepath.Join(lineage.Real(filepath.Dir(abs)), filepath.Base(abs)), lineage.Real(abs)} {
		dir, rel := "", "."
		for at := path; ; at = filepath.Dir(at) {
			real := lineage.Real(at)
			yes, err := is(real)
			if err != nil {
				return nil, err
			}
			below, err := filepath.Rel(at, path)
			if err != nil {
				return nil, err
			}
			// The nearest one counts, unless a link below another one leads to it.
			if yes && (dir == "" || filepath.Join(real, below) != filepath.Join(dir, rel)) {
				dir, rel = real, below
			}
			if at == filepath.Dir(at) {
				break
			}
		}
		if found := (place{dir, rel}); dir != "" && !slices.Contains(list, found) {
			list = append(list, found)
		}
	}
	return list, nil
}

// keptPlaces returns the places that a typed path has in synchronised directories. state names the state of one
// directory; with "" every state that is found counts. A state that names no directory may have any path.
func keptPlaces(ctx context.Context, state, typed string) ([]place, error) {
	is := func(dir string) (bool, error) {
		list, err := keptAt(dir)
		return len(list) > 0, err
	}
	if state != "" {
		of, err := dirOfState(ctx, state)
		if err != nil {
			return nil, err
		}
		is = func(dir string) (bool, error) { return dir == firstSet(of, "/"), nil }
	}
	return placesOf(typed, is)
}
