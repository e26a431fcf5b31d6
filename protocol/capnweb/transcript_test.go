package capnweb

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// Transcripts are what goes over the wire, frame by frame. "C>" is what the test sends,
// "S>" what the session must send next, "S~" what it must send next with the S~ around it
// in any order, "S!" how the session closes.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range scenarios(text) {
				t.Run(part.name, func(t *testing.T) { playTranscript(t, part.lines) })
			}
		})
	}
}

type scenario struct {
	name  string
	lines []string
}

// scenarios takes a file apart at its lines "== name".
func scenarios(text []byte) []scenario {
	var parts []scenario
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "== "); ok {
			parts = append(parts, scenario{name: title})
		} else if line != "" && !strings.HasPrefix(line, "#") {
			last := &parts[len(parts)-1]
			last.lines = append(last.lines, line)
		}
	}
	return parts
}

func playTranscript(t *testing.T, lines []string) {
	ctx := aMinute(t)
	service := newService()
	end, conn := rpc.Pair()
	closed := &closeRecorder{Connection: end}
	s := New(closed, Config{Main: service.main, Logger: testLogger(t)})
	defer s.Close()
	var any []string
	for i, line := range append(lines, "") {
		kind, frame, _ := strings.Cut(line, " ")
		if kind != "S~" && len(any) > 0 {
			expectAny(ctx, t, conn, any)
			any = nil
		}
		switch kind {
		case "C>":
			if err := conn.Write(ctx, []byte(frame)); err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
		case "S>":
			got, err := conn.Read(ctx)
			if err != nil || string(got) != frame {
				t.Fatalf("got  %s, %v\nwant %s", got, err, frame)
			}
		case "S~":
			any = append(any, frame)
		case "S!":
			if got, err := conn.Read(ctx); err == nil {
				t.Fatalf("%s instead of the end", got)
			}
			if s.Wait(); closed.reason != frame || closed.code != CloseCode {
				t.Fatalf("closed with %d %q, want %q", closed.code, closed.reason, frame)
			}
		case "go":
			service.release <- struct{}{}
		case "take":
			takeItem(ctx, t, service, frame)
		case "more": // frames whose content does not matter here
			n, _ := strconv.Atoi(frame)
			for range n {
				if _, err := conn.Read(ctx); err != nil {
					t.Fatal(err)
				}
			}
		case "cancelled":
			select {
			case err := <-service.cancelled:
				if err.Error() != frame {
					t.Fatalf("cancelled with %v, want %s", err, frame)
				}
			case <-ctx.Done():
				t.Fatal("the stream is not cancelled")
			}
		case "":
		default:
			t.Fatalf("what is %q?", line)
		}
	}
	if s.Err() == nil {
		// Whatever the peer did, it let go of everything.
		for s.Stats() != (Stats{1, 1}) {
			if ctx.Err() != nil {
				t.Fatalf("the tables hold %+v at rest", s.Stats())
			}
			runtime.Gosched()
		}
	}
}

func takeItem(ctx context.Context, t *testing.T, service *service, want string) {
	t.Helper()
	select {
	case v := <-service.taken:
		var got string
		if err, ok := v.(error); ok {
			got = err.Error()
		} else {
			text, _ := Marshal(v)
			got = string(text)
		}
		if got != want {
			t.Fatalf("took %s, want %s", got, want)
		}
	case <-ctx.Done():
		t.Fatal("nothing to take")
	}
}

func expectAny(ctx context.Context, t *testing.T, conn rpc.Connection, want []string) {
	t.Helper()
	var got []string
	for range want {
		frame, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("got %v, then %v; want %v", got, err, want)
		}
		got = append(got, string(frame))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// closeRecorder notes how a connection is closed.
type closeRecorder struct {
	rpc.Connection
	code   int
	reason string
}

func (c *closeRecorder) CloseFault(code int, reason string) error {
	c.code, c.reason = code, reason
	return c.Close()
}

// The format itself.
func TestScenarios(t *testing.T) {
	got := scenarios([]byte("# x\n== a\nC> 1\n\n== b\nS> 2\nS~ 3\n"))
	want := []scenario{{"a", []string{"C> 1"}}, {"b", []string{"S> 2", "S~ 3"}}}
	if len(got) != 2 || got[0].name != "a" || !slices.Equal(got[0].lines, want[0].lines) || !slices.Equal(got[1].lines, want[1].lines) {
		t.Errorf("%q", got)
	}
}
