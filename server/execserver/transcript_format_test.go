package execserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// A transcript is one txtar file of testdata/transcripts: what a client sends and what
// it must be answered. Its comment states the rule, and may hold two settings:
//
//	kinds: websocket unix    the connections it makes sense on; all without it
//	target: wsd              wsd decides otherwise than the original here
//
// The member "transcript" has one step a line, "setup" has commands to prepare the
// private directory (see files_test.go), every other member is a file in it.
//
//	-> TEXT           send TEXT in a frame
//	->q "TEXT"        the same, as a quoted Go string
//	->* N "A" "B" "C" send A, N times B, and C
//	<- PATTERN        the next message (see transcript_match_test.go)
//	<~ PATTERN        one of the next messages: neighbours come in any order
//	<< ID STREAM "TEXT"  output of a process, in any number of chunks; a neighbour
//	                  of <~ lines like them; the text * is any
//	# TEXT            nothing
//	@ready            initialize the connection; its session is $session
//	@open             the connection lives, and nothing else has been sent
//	@closed [CODE]    the server closes the connection
//	@on NAME          use, or open, another connection; the first is a
//	@drop             close the connection
//	@eof              end the input, on stdio
//	@retry CODE       repeat the next request while it is refused with CODE
//	@CMD ARGS         prepare or check the private directory
//
// $W is the private directory, $U its URI, $H the URL of a web server, and $NAME what
// the pattern "$save:NAME" has matched.
type transcript struct {
	file    string
	archive *txtar.Archive
	kinds   []string
	wsdOnly bool
	setup   []string
	steps   []step
}

type step struct {
	line int    // index into the lines of the member "transcript"
	op   string // "->", "->q", "->*", "<-", "<~", "<<" or "@"
	text string
}

const transcriptMember = "transcript"

func readTranscript(file string) (*transcript, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, err
	}
	tr := &transcript{file: file, archive: archive}
	for line := range strings.Lines(string(archive.Comment)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "kinds":
			tr.kinds = strings.Fields(value)
		case "target":
			tr.wsdOnly = value == "wsd"
		}
	}
	for _, member := range archive.Files {
		switch member.Name {
		case "setup":
			for line := range strings.Lines(string(member.Data)) {
				tr.setup = append(tr.setup, strings.TrimSpace(line))
			}
		case transcriptMember:
			if tr.steps, err = parseSteps(string(member.Data)); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	if len(tr.steps) == 0 {
		return nil, fmt.Errorf("%s: no steps", file)
	}
	return tr, nil
}

func parseSteps(text string) ([]step, error) {
	var steps []step
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '@' {
			steps = append(steps, step{i, "@", line[1:]})
			continue
		}
		op, rest, ok := strings.Cut(line, " ")
		if !ok || !slices.Contains([]string{"->", "->q", "->*", "<-", "<~", "<<"}, op) {
			return nil, fmt.Errorf("line %d: unknown step %q", i+1, line)
		}
		steps = append(steps, step{i, op, rest})
	}
	return steps, nil
}

// special is the text that a ->q or ->* step sends.
func (s step) special() (string, error) {
	args, err := splitArgs(s.text)
	if err != nil {
		return "", err
	}
	if s.op == "->q" && len(args) == 1 {
		return args[0], nil
	}
	if s.op != "->*" || len(args) != 4 {
		return "", fmt.Errorf("%s takes other arguments", s.op)
	}
	n, err := strconv.Atoi(args[0])
	return args[1] + strings.Repeat(args[2], n) + args[3], err
}

// prepare puts the transcript's files into dir.
func (tr *transcript) prepare(dir string) error {
	for _, member := range tr.archive.Files {
		if member.Name == transcriptMember || member.Name == "setup" {
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(member.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, member.Data, 0o644); err != nil {
			return err
		}
	}
	for _, command := range tr.setup {
		if err := fileCommand(dir, command); err != nil {
			return fmt.Errorf("setup: %s: %w", command, err)
		}
	}
	return nil
}

// rewrite replaces lines of the transcript, by index; a line may become several.
func (tr *transcript) rewrite(changed map[int]string) error {
	for i := range tr.archive.Files {
		member := &tr.archive.Files[i]
		if member.Name != transcriptMember {
			continue
		}
		lines := strings.Split(string(member.Data), "\n")
		for at, line := range changed {
			lines[at] = line
		}
		member.Data = []byte(strings.Join(lines, "\n"))
	}
	return os.WriteFile(tr.file, txtar.Format(tr.archive), 0o644)
}

// TestTranscriptsAreWhole keeps the files honest: each states its rule, and checks
// something.
func TestTranscriptsAreWhole(t *testing.T) {
	for _, file := range transcriptFiles(t) {
		tr, err := readTranscript(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(strings.TrimSpace(string(tr.archive.Comment))) < 20 {
			t.Errorf("%s: the comment does not state the rule", file)
		}
		checks := slices.ContainsFunc(tr.steps, func(s step) bool {
			return s.op[0] == '<' || s.text == "open" || strings.HasPrefix(s.text, "closed")
		})
		if !checks {
			t.Errorf("%s: nothing is checked", file)
		}
	}
}

func transcriptFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "transcripts", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	return files
}
