package withheld

import "testing"

func TestSH8NamesThatRunCode(t *testing.T) {
	for _, path := range []string{
		".git/config", "/.git/config", "a/b/.git/hooks/pre-commit", ".git/hooks", ".git", "sub/.git", ".git/modules/x/config",
		".git/modules/a/b/hooks/post-checkout", ".git/worktrees/w/config.worktree", ".git/config.worktree", ".git/commondir",
		".git/rebase-merge/git-rebase-todo",
		".GIT/config", ".Git/Config", ".git/HOOKS/pre-push", ".g\u200cit/config", "GIT~1/config", ".git./config", ".git /hooks/x",
		".git::$INDEX_ALLOCATION/config", ".git/con\ufb01g", ".git/hook\u017f/x", "bare/HEAD",
		"bare.git/config", "a/Bare.GIT/hooks/pre-receive", "bare.git/hooks", "bare.git/worktrees/w/config.worktree", "bare.git/commondir",
		".envrc", "a/.envrc", ".ENVRC", ".vscode/tasks.json", ".vscode/settings.json", ".vscode", ".idea/workspace.xml", "x.code-workspace",
		".claude/settings.json", ".mcp.json", ".husky/pre-commit", ".ssh/authorized_keys", ".bashrc", ".config/fish/config.fish",
		".config", ".hg/hgrc", ".hg", ".jj/repo/config.toml", ".config/mise.toml", ".dir-locals.el",
		".ocamlinit", ".iex.exs", ".octaverc", ".lesskey", ".psqlrc", ".direnvrc", ".config/direnv/direnvrc", ".config/tmux/tmux.conf",
		".kiro/hooks/x", ".opencode/plugin/x.js", "opencode.json", ".aider.conf.yml",
	} {
		if !Code(path, Other) {
			t.Errorf("%q comes over", path)
		}
	}
	for _, path := range []string{".git/refs/heads/main", ".git/modules", ".git", ".vscode", ".hg", ".config", ".config/fish", ".git/hooks/x"} {
		if !Code(path, Link) {
			t.Errorf("the link %q comes over", path)
		}
	}
	for _, path := range []string{
		"", "/", "a/b.go", ".gitignore", ".gitattributes", ".gitmodules", ".github/workflows/ci.yml", ".git/HEAD", ".git/index",
		".git/refs/heads/config", ".git/refs/heads/hooks/x", ".git/logs/HEAD", ".git/objects/ab/cdef", ".git/info/exclude", "config",
		"hooks/pre-commit", "Makefile", ".env", "head.go", ".config/app.toml", "git~x/config", ".git/packed-refs", "vscode/tasks.json",
		"bare.git", "bare.git/packed-refs", "work.git/src/config", "work.git/src/hooks/use.ts", "work.git/config/app.toml",
	} {
		if Code(path, Other) {
			t.Errorf("%q does not come over", path)
		}
	}
	for _, path := range []string{".git", ".git/modules/config", ".vscode", ".hg", ".config", ".jj/repo", "head"} {
		if Code(path, Dir) {
			t.Errorf("the directory %q does not come over", path)
		}
	}
	if !Code(".git/hooks", Dir) {
		t.Error("the mode of .git/hooks comes over")
	}
}

func TestSH8BelowDestination(t *testing.T) {
	for _, tt := range []struct {
		dir, path string
		want      bool
	}{
		{"/home/u/repo/.git", "hooks/pre-commit", true},
		{"/home/u/repo/.GIT/modules/x", "config", true},
		{"/home/u/repo", "hooks/pre-commit", false},
		{"/home/u/.claude/worktrees/x", "main.go", false},
		{"/home/u/.git-things", "config", false},
		{"/home/u/repo/.git/modules/x.git", "y/config", true},
		{"/srv/bare.git", "config", true},
		{"/srv/bare.git/", "hooks/post-update", true},
		{"/home/u/work.git/.claude/worktrees/x", "main.go", false},
	} {
		if got := Code(Below(tt.dir, tt.path), Other); got != tt.want {
			t.Errorf("%s in %s: %v", tt.path, tt.dir, got)
		}
	}
}
