package discovery

import (
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// maxSkillName is the most characters of a skill's name.
const maxSkillName = 64

// frontMatter is what a SKILL.md says before its text.
type frontMatter struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Metadata    struct {
		ShortDescription string `yaml:"short-description"`
	} `yaml:"metadata"`
}

// describe reads what a skill's files say of it; false when they do not say enough.
// A skill without a name is called after its directory.
func describe(found protocol.DiscoveredSkill) (protocol.UserSkill, bool) {
	skill := protocol.UserSkill{Path: found.Instructions.Path}
	front, ok := readFrontMatter(found.Instructions.Contents)
	if !ok {
		return skill, false
	}
	skill.Name, skill.Description = oneLine(front.Name), oneLine(front.Description)
	if skill.Name == "" {
		if file, err := fileuri.Path(skill.Path); err == nil {
			skill.Name = path.Base(path.Dir(file))
		}
	}
	if short := oneLine(front.Metadata.ShortDescription); short != "" {
		skill.ShortDescription = &short
	}
	if skill.Description == "" || utf8.RuneCountInString(skill.Name) > maxSkillName {
		return skill, false
	}
	if found.Metadata != nil {
		readSkillMetadata(found.Metadata.Contents, &skill)
	}
	return skill, true
}

// oneLine is s with every run of white space made one blank.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// readFrontMatter reads the YAML between a first line "---" and the next one.
func readFrontMatter(text string) (front frontMatter, ok bool) {
	const fence = "---"
	lines := strings.Split(text, "\n")
	if strings.TrimRight(lines[0], " \t\r") != fence {
		return front, false
	}
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t\r") != fence {
			continue
		}
		body := strings.Join(lines[1:i+1], "\n")
		if yaml.Unmarshal([]byte(body), &front) == nil {
			return front, true
		}
		front = frontMatter{}
		return front, yaml.Unmarshal([]byte(quotePlain(body)), &front) == nil
	}
	return front, false
}

// plainColon is a line whose value has a colon in it and no quotes about it, which
// is not YAML and is written all the same.
var plainColon = regexp.MustCompile(`(?m)^([ \t]*[\w-]+):[ \t]+([^\s'"|>\[{&*!#%@` + "`" + `].*: .*?)[ \t\r]*$`)

// quotePlain puts quotes about such values.
func quotePlain(yaml string) string {
	return plainColon.ReplaceAllStringFunc(yaml, func(line string) string {
		m := plainColon.FindStringSubmatch(line)
		return m[1] + ": '" + strings.ReplaceAll(m[2], "'", "''") + "'"
	})
}

// readSkillMetadata takes what an agents/openai.yaml says of a skill. One that cannot
// be read says nothing.
func readSkillMetadata(text string, skill *protocol.UserSkill) {
	var meta struct {
		Dependencies struct {
			Tools []protocol.SkillTool `yaml:"tools"`
		} `yaml:"dependencies"`
		Policy *protocol.SkillPolicy `yaml:"policy"`
	}
	if yaml.Unmarshal([]byte(text), &meta) != nil {
		return
	}
	var tools []protocol.SkillTool
	for _, tool := range meta.Dependencies.Tools {
		tool.Type, tool.Value = oneLine(tool.Type), oneLine(tool.Value)
		if tool.Type != "" && tool.Value != "" {
			tools = append(tools, tool)
		}
	}
	if len(tools) > 0 {
		skill.Dependencies = &protocol.SkillDependencies{Tools: tools}
	}
	if skill.Policy = meta.Policy; skill.Policy != nil && skill.Policy.Products == nil {
		skill.Policy.Products = []string{}
	}
}
