package discovery

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// Names of files in a root.
const (
	skillName    = "SKILL.md"
	skillMeta    = "agents/openai.yaml"
	manifestName = "plugin.json"
	mcpName      = ".mcp.json"
	appsName     = ".app.json"
)

// pluginDirs are the directories of a manifest, the preferred one first.
var pluginDirs = []string{".codex-plugin", ".claude-plugin", ".cursor-plugin"}

// scan looks into one root.
type scan struct {
	reader
	root protocol.CapabilityRoot
	dir  string // its path
	out  protocol.DiscoveredRoot
}

func newScan(ctx context.Context, files Files, root protocol.CapabilityRoot, total *int) *scan {
	return &scan{
		reader: reader{
			ctx: ctx, files: files, sandbox: root.Sandbox, left: protocol.MaxCapabilityRootBytes, total: total,
			read: make(map[string]*protocol.CapabilityFile),
		},
		root: root,
		out: protocol.DiscoveredRoot{
			ID: root.ID, Path: root.Path, Skills: []protocol.DiscoveredSkill{},
			NamespaceManifests: []protocol.CapabilityFile{}, Warnings: []string{},
		},
	}
}

// run fills in out. It returns an error only for a root that is no URI at all.
func (s *scan) run() error {
	dir, err := fileuri.Path(s.root.Path)
	if err == nil {
		s.dir = dir
		err = s.inspect()
	} else if bad, ok := errors.AsType[*fileuri.Error](err); ok && bad.Kind == fileuri.Malformed {
		return protocol.InvalidParams("%v", err)
	} else {
		err = fmt.Errorf("failed to inspect capability root %s: %w", s.root.Path, err)
	}
	if err != nil {
		text := err.Error()
		s.out.Error = &text
	}
	if s.warnings != nil {
		s.out.Warnings = s.warnings
	}
	return nil
}

func (s *scan) inspect() error {
	info, err := s.files.GetMetadata(s.ctx, &protocol.GetMetadataParams{Path: s.root.Path, Sandbox: s.sandbox})
	if err != nil {
		return fmt.Errorf("failed to inspect capability root %s: %w", s.root.Path, err)
	}
	if !info.IsDirectory {
		return fmt.Errorf("capability root %s is not a directory", s.root.Path)
	}
	own := s.manifest(s.dir)
	if own != nil {
		s.out.Plugin = s.plugin(own)
	}
	tree, err := s.files.Walk(s.ctx, &protocol.WalkParams{Path: s.root.Path, Sandbox: s.sandbox, Options: protocol.WalkOptions{
		MaxDepth: protocol.MaxCapabilityDepth, MaxDirectories: protocol.MaxCapabilityDirectories,
		MaxEntries: protocol.MaxCapabilityEntries, FollowDirectorySymlinks: true,
	}})
	if err != nil {
		return fmt.Errorf("failed to scan capability root %s: %w", s.root.Path, err)
	}
	if tree.Truncated {
		s.warn("capability scan reached its traversal limit (root: %s)", s.root.Path)
	}
	for _, failure := range tree.Errors {
		s.warn("failed to scan %s: %s", failure.Path, failure.Message)
	}
	s.take(own, regularFiles(tree))
	return nil
}

// regularFiles are the paths of the regular files in tree, sorted.
func regularFiles(tree *protocol.WalkResult) []string {
	var files []string
	for _, e := range tree.Entries {
		if e.Kind != "file" {
			continue
		}
		if p, err := fileuri.Path(e.Path); err == nil {
			files = append(files, p)
		}
	}
	slices.Sort(files)
	return files
}

// take reads what files, sorted, hold of skills and manifests.
func (s *scan) take(own *protocol.CapabilityFile, files []string) {
	plugins := make(map[string]bool) // directories done
	if own != nil {
		s.out.NamespaceManifests = append(s.out.NamespaceManifests, *own)
		plugins[s.dir] = true
	}
	for _, file := range files {
		dir := path.Dir(file)
		switch path.Base(file) {
		case skillName:
			s.skill(dir, files)
		case manifestName:
			plugin := path.Dir(dir)
			if !slices.Contains(pluginDirs, path.Base(dir)) || plugins[plugin] {
				continue
			}
			plugins[plugin] = true
			if m := s.manifest(plugin); m != nil {
				s.out.NamespaceManifests = append(s.out.NamespaceManifests, *m)
			}
		}
	}
	slices.SortFunc(s.out.NamespaceManifests, func(a, b protocol.CapabilityFile) int { return strings.Compare(a.Path, b.Path) })
}

func (s *scan) skill(dir string, files []string) {
	instructions := s.at(dir, skillName)
	if instructions == nil {
		return
	}
	skill := protocol.DiscoveredSkill{Instructions: *instructions}
	if _, there := slices.BinarySearch(files, path.Join(dir, skillMeta)); there {
		skill.Metadata = s.at(dir, skillMeta)
	}
	s.out.Skills = append(s.out.Skills, skill)
}

// at reads the file name below dir.
func (s *scan) at(dir, name string) *protocol.CapabilityFile {
	return s.file(fileuri.Format(path.Join(dir, name)))
}

// manifest reads the manifest of the plugin in dir, nil if it is none.
func (s *scan) manifest(dir string) *protocol.CapabilityFile {
	for _, kind := range pluginDirs {
		if f := s.at(dir, kind+"/"+manifestName); f != nil {
			return f
		}
	}
	return nil
}
