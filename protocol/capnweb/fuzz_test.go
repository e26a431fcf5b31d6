package capnweb

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// seeds are the frames of the transcripts, one by one and by scenario.
func seeds(f *testing.F) (frames []string, sessions [][]byte) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range scenarios(text) {
			var session []string
			for _, line := range part.lines {
				kind, frame, _ := strings.Cut(line, " ")
				if strings.HasPrefix(kind, "C") || strings.HasPrefix(kind, "S") {
					frames = append(frames, frame)
				}
				if kind == "C>" {
					session = append(session, frame)
				}
			}
			sessions = append(sessions, []byte(strings.Join(session, "\n")))
		}
	}
	return frames, sessions
}

// What is decoded is encoded to what is decoded as the same; and what is no JSON for the
// standard library is none here.
func FuzzValue(f *testing.F) {
	frames, _ := seeds(f)
	for _, frame := range frames {
		f.Add([]byte(frame))
	}
	f.Add([]byte(`["error","E","m"]`))
	f.Add([]byte(`[["bytes","AQIDBA","Uint16Array"],["date",null],["error","E","m",null,{"code":"x","a":[[1]]}],["bigint","12"]]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := check(text); (err == nil) != json.Valid(text) && !strings.Contains(err.Error(), "nested too deeply") && !strings.Contains(err.Error(), "more than") {
			t.Fatalf("check: %v, json.Valid: %v", err, json.Valid(text))
		}
		var first, second any
		if Unmarshal(text, &first) != nil {
			return
		}
		again, err := Marshal(first)
		if err != nil {
			t.Fatalf("what was decoded is not encoded: %v", err)
		}
		if err := Unmarshal(again, &second); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		same := cmp.Options{cmpopts.EquateNaNs(), cmp.Comparer(func(a, b *Error) bool {
			return a.Message == b.Message && a.Code == b.Code && len(a.Props) == len(b.Props)
		}), cmp.Comparer(func(a, b interface{ String() string }) bool { return a.String() == b.String() })}
		if diff := cmp.Diff(first, second, same); diff != "" {
			t.Fatal(diff)
		}
		third, err := Marshal(second)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s\n%s", again, third)
		}
	})
}

// lines is a transport whose peer sends what it is given, goes away, and takes all.
type lines struct {
	in     [][]byte
	closed chan struct{}
	once   sync.Once
}

func (l *lines) Read(context.Context) ([]byte, error) {
	if len(l.in) == 0 {
		return nil, io.EOF
	}
	line := l.in[0]
	l.in = l.in[1:]
	return line, nil
}

func (l *lines) Write(_ context.Context, msg []byte) error {
	if !json.Valid(msg) {
		panic("what is sent is no JSON: " + string(msg))
	}
	return nil
}

func (l *lines) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Whatever a peer sends, a session ends with it, in time and with nothing left behind.
func FuzzSession(f *testing.F) {
	_, sessions := seeds(f)
	for _, s := range sessions {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		v := newService()
		for range cap(v.release) {
			v.release <- struct{}{}
		}
		go func() { // ends with the session, whose end breaks every stream
			for range v.taken {
			}
		}()
		go func() {
			for range v.cancelled {
			}
		}()
		defer close(v.taken)
		defer close(v.cancelled)
		s := New(&lines{in: bytes.Split(input, []byte{'\n'}), closed: make(chan struct{})}, Config{Main: v.main})
		select {
		case <-s.quiet:
		case <-time.After(time.Minute):
			t.Fatal("the session does not end")
		}
		s.lock()
		defer s.unlock()
		if len(s.exports) != 0 || len(s.imports) != 0 || s.callBytes != 0 || s.streamBytes != 0 || s.heldBytes != 0 {
			t.Fatalf("left behind: %d exports, %d imports, %d bytes of calls, %d of streams, %d of results",
				len(s.exports), len(s.imports), s.callBytes, s.streamBytes, s.heldBytes)
		}
	})
}

// A batch is answered with frames, or refused.
func FuzzBatch(f *testing.F) {
	_, sessions := seeds(f)
	for _, s := range sessions {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		v := newService()
		for range cap(v.release) {
			v.release <- struct{}{}
		}
		go func() {
			for range v.taken {
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer, err := ServeBatch(ctx, input, Config{Main: v.main})
		if err != nil || len(answer) == 0 {
			return
		}
		for line := range bytes.SplitSeq(answer, []byte{'\n'}) {
			if !json.Valid(line) {
				t.Fatalf("%s", line)
			}
		}
	})
}
