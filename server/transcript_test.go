package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTranscripts plays testdata/transcripts/*.txt, each on a fresh server. Lines:
//
//	# a comment
//	-> what the client sends
//	<- what the server must send; $SESSION stands for any session id, and from then on
//	   for that one, in what the client sends too
//	== the client closes the connection and opens another
//
// What was not answered must not have been due: each transcript ends with an answer.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, string(text))
		})
	}
}

var uuid4 = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

func play(t *testing.T, text string) {
	w := newWorld(t, Config{})
	opts := ConnectionOptions{ParsePrefix: "failed to parse: "}
	c := w.dial(opts)
	session := "$SESSION"
	for n, line := range strings.Split(text, "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		rest = strings.ReplaceAll(rest, "$SESSION", session)
		switch kind {
		case "", "#":
		case "->":
			c.send(rest)
		case "<-":
			got := c.receive()
			if session == "$SESSION" {
				if id := uuid4.FindString(got); id != "" {
					session = id
					rest = strings.ReplaceAll(rest, "$SESSION", id)
				}
			}
			if got != rest {
				t.Fatalf("line %d:\ngot  %s\nwant %s", n+1, got, rest)
			}
		case "==":
			c.conn.Close()
			c.ended()
			c = w.dial(opts)
		default:
			t.Fatalf("line %d: %q is no kind of line", n+1, kind)
		}
	}
}
