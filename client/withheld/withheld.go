package withheld

import (
	"path/filepath"
	"strings"
	"unicode"
)

// ModeBits are the bits of a mode that do not come over: set-user-ID, set-group-ID and
// sticky.
const ModeBits = 0o7000

// A Kind is what a path is, as far as Code asks.
type Kind int

// The kinds. Other is everything that is neither a directory nor a link.
const (
	Other Kind = iota
	Dir
	Link
)

// files are names that a program obeys in whatever directory it starts in, or that is
// opened with it.
var files = setOf(
	// Shells and their helpers, as a directory is entered.
	".envrc", ".autoenv", ".autoenv.zsh", ".mise.toml", "mise.toml", ".mise.local.toml", "mise.local.toml", ".rtx.toml",
	// Editors, as a directory or a file in it is opened.
	".exrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".kakrc",
	".devcontainer.json", ".mcp.json", "opencode.json", ".aider.conf.yml",
	// Interpreters and debuggers, as they start.
	".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc", ".ghci", ".rprofile", ".renviron", ".rdata",
	".ocamlinit", ".iex.exs", ".erlang", ".octaverc", ".byebugrc", ".rdbgrc",
	// What hooks that are installed already run.
	".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", "lefthook.yaml", "lefthook-local.yml",
	".lefthook.yml", ".lefthook.yaml", ".lefthook-local.yml",
	// A home directory's.
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile",
	".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xinitrc", ".xprofile",
	".xsession", ".xsessionrc", ".pam_environment", ".gitconfig", ".hgrc", ".tmux.conf", ".screenrc", ".emacs", ".emacs.el",
	".direnvrc", ".xonshrc", ".zcompdump", ".gdbearlyinit", ".lesskey", ".less", ".psqlrc", ".sqliterc", ".mailrc", ".wgetrc",
	".forward", ".procmailrc", ".rhosts", ".shosts", ".k5login", ".mailcap",
)

// dirs are names of directories in which everything counts.
var dirs = setOf(
	".vscode", ".idea", ".vs", ".zed", ".fleet", ".helix", ".devcontainer", ".externaltoolbuilders",
	".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".kiro", ".opencode", ".roo", ".amazonq", ".mise",
	".husky", ".githooks",
	".ssh", ".gnupg", ".vim", ".emacs.d", ".bashrc.d", ".zshrc.d", ".oh-my-zsh",
)

// paths are those of more than one name. All below them counts, and so does what is no
// directory on the way to them: a link there would lead to another one.
var paths = [][]string{
	{".hg", "hgrc"},
	{".hg", "hgrc-not-shared"},
	{".hg", "sharedpath"},
	{".jj", "config.toml"},
	{".jj", "workspace-config.toml"},
	{".jj", "repo", "config.toml"},
	{".config", "mise.toml"},
	{".config", "mise"},
	{".config", "git"},
	{".config", "fish"},
	{".config", "nvim"},
	{".config", "helix"},
	{".config", "direnv"},
	{".config", "tmux"},
	{".config", "zsh"},
	{".config", "emacs"},
	{".config", "vim"},
	{".config", "nushell"},
	{".config", "hg"},
	{".config", "jj"},
	{".config", "autostart"},
	{".config", "systemd"},
	{".config", "environment.d"},
	{".config", "plasma-workspace"},
	{".local", "bin"},
	{".local", "share", "systemd"},
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Code reports whether something of kind k at a path, whose names are separated by
// slashes, makes programs run code that nobody has told to. Names that some file system
// takes for one of those count as it.
func Code(path string, k Kind) bool {
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = fold(name)
	}
	git := false
	for i, name := range names {
		rest := names[i+1:]
		leaf := len(rest) == 0 && k != Dir
		switch {
		case name == ".git":
			if leaf || gitCode(rest, k) {
				return true
			}
			git = true
		case strings.HasSuffix(name, ".git") && bareCode(rest, k),
			leaf && (files[name] || strings.HasSuffix(name, ".code-workspace")),
			dirs[name] && (leaf || len(rest) > 0),
			// A directory with a HEAD is taken for a repository, and its config obeyed.
			leaf && name == "head" && !git,
			onPath(names[i:], k):
			return true
		}
	}
	return false
}

// gitCode is Code for what is below a directory .git.
func gitCode(rest []string, k Kind) bool {
	if len(rest) == 0 {
		return false
	}
	if k == Link { // git makes none; it may lead to a config of somewhere else
		return true
	}
	switch rest[0] {
	case "refs", "logs", "objects": // a branch may have any name
		return false
	}
	for i, name := range rest {
		leaf := i == len(rest)-1 && k != Dir
		switch name {
		case "hooks", "rebase-merge":
			return true
		case "config", "config.worktree", "commondir":
			if leaf {
				return true
			}
		}
	}
	return false
}

// bareCode is gitCode for a directory whose name only ends in .git. It may be a repository
// without a work tree, or a work tree that is called so.
func bareCode(rest []string, k Kind) bool {
	if len(rest) == 0 {
		return false
	}
	switch rest[0] {
	case "hooks", "worktrees":
		return gitCode(rest, k)
	case "config", "config.worktree", "commondir":
		return len(rest) == 1 && k != Dir
	}
	return false
}

// onPath reports whether names begin with one of paths, or end on the way to one with
// something that is no directory.
func onPath(names []string, k Kind) bool {
	for _, p := range paths {
		n := min(len(p), len(names))
		same := true
		for i := range n {
			same = same && p[i] == names[i]
		}
		if same && (len(names) > len(p) || k != Dir) {
			return true
		}
	}
	return false
}

// ligatures are characters that case folding makes several letters of.
var ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st", "ſ", "s", "\u212a", "k")

// fold returns one spelling of all that file systems take for the same name: those that
// ignore case (macOS, Windows), characters without a width (HFS+), and dots, blanks and
// streams at the end (NTFS).
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return unicode.ToLower(r)
	}, ligatures.Replace(name))
	if at := strings.IndexByte(name, ':'); at > 0 {
		name = name[:at]
	}
	if short := strings.TrimRight(name, " ."); short != "" {
		name = short
	}
	if n, ok := strings.CutPrefix(name, "git~"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
		return ".git"
	}
	return name
}

// Below returns path as Code must see it when it is below the directory dir of this
// machine: what is written into a repository's .git is judged as what it is there.
func Below(dir, path string) string {
	names := strings.Split(filepath.ToSlash(filepath.Clean(dir)), "/")
	for i := len(names) - 1; i >= 0; i-- {
		if fold(names[i]) == ".git" {
			return strings.Join(names[i:], "/") + "/" + strings.TrimPrefix(path, "/")
		}
	}
	if last := names[len(names)-1]; strings.HasSuffix(fold(last), ".git") {
		return last + "/" + strings.TrimPrefix(path, "/")
	}
	return path
}
