package discovery

import (
	"context"
	"os"
	"path/filepath"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// The warning of an answer that may not be whole, and the only one: the files
// themselves are the user's, not the client's.
const incomplete = "some capability metadata could not be loaded; discovery may be incomplete"

// Config is what a Service may be told; the zero value takes everything from the
// environment.
type Config struct {
	// UserRoots are the directories with the skills of the user.
	UserRoots []UserRoot
}

// UserRoot is a directory with skills.
type UserRoot struct {
	ID   string
	Path string // absolute
}

// userRoots are the directories in which codex 0.171.0 looks.
func userRoots() []UserRoot {
	home, err := os.UserHomeDir()
	codex := os.Getenv("CODEX_HOME")
	if err == nil && codex == "" {
		codex = filepath.Join(home, ".codex")
	}
	var roots []UserRoot
	if filepath.IsAbs(codex) {
		roots = append(roots, UserRoot{"codex-home-skills", filepath.Join(codex, "skills")})
	}
	if err == nil && filepath.IsAbs(home) {
		roots = append(roots, UserRoot{"user-agent-skills", filepath.Join(home, ".agents", "skills")})
	}
	return roots
}

// discoverCapabilities serves capabilities/discoverV2: it lists the skills of the
// user that runs the server. Those of the directory that the client works in, the
// client finds itself; plugins are a matter of codex's own configuration.
func (s *Service) discoverCapabilities(ctx context.Context, p *protocol.DiscoverCapabilitiesParams) (*protocol.DiscoverCapabilitiesResult, error) {
	if _, err := fileuri.Path(p.Cwd); err != nil {
		return nil, protocol.InvalidParams("%v", err)
	}
	result := &protocol.DiscoverCapabilitiesResult{Plugins: []protocol.Empty{}, Skills: []protocol.UserSkill{}, Warnings: []string{}}
	left, whole := protocol.MaxCapabilityAnswerBytes, true
	for _, root := range s.userRoots {
		uri := fileuri.Format(root.Path)
		info, err := s.files.GetMetadata(ctx, &protocol.GetMetadataParams{Path: uri, Sandbox: p.Sandbox})
		if isNotFound(err) {
			continue
		}
		if err != nil || !info.IsDirectory {
			whole = false
			continue
		}
		scan := newScan(ctx, s.files, protocol.CapabilityRoot{Path: uri, Sandbox: p.Sandbox}, &left)
		if err := scan.run(); err != nil {
			return nil, err
		}
		whole = whole && scan.out.Error == nil && len(scan.out.Warnings) == 0
		for _, found := range scan.out.Skills {
			skill, ok := describe(found)
			whole = whole && ok
			if ok {
				skill.DiscoveryRoot = protocol.DiscoveryRoot{ID: root.ID, Path: uri}
				result.Skills = append(result.Skills, skill)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if !whole {
		result.Warnings = append(result.Warnings, incomplete)
	}
	return result, nil
}
