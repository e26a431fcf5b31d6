package execserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"
)

// A ledger holds what one connection has heard of its processes and checks each
// message against the rules that hold in every case (cases/README.md): numbers without
// gaps, one exit and one close, the close last.
type ledger struct {
	processes map[string]*heard
	// resumed: the connection took a session over, so the first number of a process
	// may be any.
	resumed atomic.Bool
}

// heard is what the notifications said of one process.
type heard struct {
	next     uint64
	chunks   []chunk
	bytes    int
	exited   int // how often
	exitSeq  uint64
	exitCode int
	denied   bool
	signal   string
	timedOut bool
	closed   bool
	closeSeq uint64
}

type chunk struct {
	Seq    uint64
	Stream string
	Chunk  []byte
}

// wireChunk is a chunk as it comes in an elided frame.
type wireChunk struct {
	Seq    uint64 `json:"seq"`
	Stream string `json:"stream"`
	Chunk  string `json:"chunk"`
}

func (f *frame) chunk(c wireChunk) (chunk, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(string(f.text(c.Chunk)))
	return chunk{c.Seq, c.Stream, data}, err
}

// frame is any message of a server.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *frameError     `json:"error"`

	raw []byte
	// long are the long base64 texts, which stand as "@" and their index in Params and
	// Result: encoding/json is slow, the more so under the race detector.
	long [][]byte
}

// text is what a string of Params or Result stands for.
func (f *frame) text(s string) []byte {
	if at, ok := strings.CutPrefix(s, "@"); ok {
		if i, err := strconv.Atoi(at); err == nil && i < len(f.long) {
			return f.long[i]
		}
	}
	return []byte(s)
}

// elide takes the long base64 texts out of a message.
func elide(raw []byte) (rest []byte, long [][]byte) {
	for {
		at := -1
		for _, name := range []string{`"chunk":"`, `"dataBase64":"`} {
			if i := bytes.Index(raw, []byte(name)); i >= 0 && (at < 0 || i+len(name) < at) {
				at = i + len(name)
			}
		}
		if at < 0 {
			return append(rest, raw...), long
		}
		end := bytes.IndexByte(raw[at:], '"')
		if end < 0 {
			return append(rest, raw...), long
		}
		rest = append(rest, raw[:at]...)
		if end < 256 {
			rest = append(rest, raw[at:at+end]...)
		} else {
			rest = fmt.Appendf(rest, "@%d", len(long))
			long = append(long, raw[at:at+end])
		}
		raw = raw[at+end:]
	}
}

type frameError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *frameError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// parseFrame also checks that the message is one that may be sent at all.
func parseFrame(raw []byte) (*frame, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("a frame is not UTF-8: %.200q", raw)
	}
	f := &frame{raw: raw}
	rest := raw
	if len(raw) > 1024 {
		rest, f.long = elide(raw)
	}
	if err := json.Unmarshal(rest, f); err != nil {
		return nil, fmt.Errorf("a frame is not a message: %w: %.200q", err, raw)
	}
	if f.Method == "" && f.ID == nil {
		return nil, fmt.Errorf("a frame is neither answer nor notification: %.200q", raw)
	}
	return f, nil
}

// note takes in a message and returns the rule it breaks.
func (l *ledger) note(f *frame) error {
	if f.ID != nil {
		return nil
	}
	var p struct {
		wireChunk
		ProcessID string `json:"processId"`
		ExitCode  *int   `json:"exitCode"`
		Denied    *bool  `json:"sandboxDenied"`
		Signal    string `json:"signal"`
		TimedOut  bool   `json:"timedOut"`
	}
	switch f.Method {
	case "process/output", "process/exited", "process/closed":
	default:
		return nil
	}
	if err := json.Unmarshal(f.Params, &p); err != nil {
		return fmt.Errorf("%s: %w", f.Method, err)
	}
	h := l.processes[p.ProcessID]
	if h == nil {
		h = &heard{next: 1}
		if l.resumed.Load() {
			h.next = p.Seq
		}
		l.processes[p.ProcessID] = h
	}
	if h.closed {
		// After the retention time the id may be used again, from 1.
		return fmt.Errorf("%s of %q after its close", f.Method, p.ProcessID)
	}
	if p.Seq != h.next {
		return fmt.Errorf("%s of %q has seq %d, want %d", f.Method, p.ProcessID, p.Seq, h.next)
	}
	h.next++
	switch f.Method {
	case "process/output":
		c, err := f.chunk(p.wireChunk)
		if err != nil || len(c.Chunk) == 0 {
			return fmt.Errorf("an empty or broken chunk of %q: %w", p.ProcessID, err)
		}
		h.chunks = append(h.chunks, c)
		h.bytes += len(c.Chunk)
	case "process/exited":
		if p.ExitCode == nil || p.Denied == nil {
			return fmt.Errorf("an exit of %q without exitCode or sandboxDenied", p.ProcessID)
		}
		if h.exited++; h.exited > 1 {
			return fmt.Errorf("%q exited twice", p.ProcessID)
		}
		h.exitSeq, h.exitCode, h.denied, h.signal, h.timedOut = p.Seq, *p.ExitCode, *p.Denied, p.Signal, p.TimedOut
	case "process/closed":
		if h.exited == 0 && !l.resumed.Load() {
			return fmt.Errorf("%q closed without an exit", p.ProcessID)
		}
		h.closed, h.closeSeq = true, p.Seq
	}
	return nil
}

// output joins a process's chunks: those of one stream, or all for "".
func (h *heard) output(stream string) []byte {
	var out []byte
	for _, c := range h.chunks {
		if stream == "" || c.Stream == stream {
			out = append(out, c.Chunk...)
		}
	}
	return out
}

func newLedger() *ledger { return &ledger{processes: make(map[string]*heard)} }

func TestLedgerFindsFaults(t *testing.T) {
	out := func(seq int) string {
		return fmt.Sprintf(`{"method":"process/output","params":{"processId":"p","seq":%d,"stream":"stdout","chunk":"eA=="}}`, seq)
	}
	exited := func(seq int) string {
		return fmt.Sprintf(`{"method":"process/exited","params":{"processId":"p","seq":%d,"exitCode":0,"sandboxDenied":false}}`, seq)
	}
	closed := func(seq int) string {
		return fmt.Sprintf(`{"method":"process/closed","params":{"processId":"p","seq":%d}}`, seq)
	}
	long := func(text string) string {
		return `{"method":"process/output","params":{"processId":"p","seq":1,"stream":"stdout","chunk":"` + strings.Repeat(text, 1000) + `"}}`
	}
	tests := []struct {
		name     string
		messages []string
		fault    bool
	}{
		{"whole", []string{out(1), exited(2), closed(3)}, false},
		{"output after the exit", []string{exited(1), out(2), closed(3)}, false},
		{"gap", []string{out(1), out(3)}, true},
		{"repeat", []string{out(1), out(1)}, true},
		{"first is not 1", []string{out(2)}, true},
		{"exits twice", []string{exited(1), exited(2)}, true},
		{"closes without exit", []string{out(1), closed(2)}, true},
		{"output after the close", []string{exited(1), closed(2), out(3)}, true},
		{"a long chunk", []string{long("eHh4"), exited(2), closed(3)}, false},
		{"a long chunk that is broken", []string{long("eHh*")}, true},
		{"no JSON", []string{`{"method"`}, true},
		{"bytes that are not text", []string{"{\"method\":\"\xff\"}"}, true},
		{"neither", []string{`{}`}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			fault := slices.ContainsFunc(test.messages, func(m string) bool {
				f, err := parseFrame([]byte(m))
				return err != nil || l.note(f) != nil
			})
			if fault != test.fault {
				t.Errorf("fault = %v, want %v", fault, test.fault)
			}
		})
	}
}
