package arq

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("arq.update", false, "rewrite the answers in testdata/rules")

// TestRules plays the scripts in testdata/rules: one for each rule, which it quotes. A
// line "> ..." is what happens to a stream; below stands what it did.
//
//	> write TEXT            TEXT is letters, or LETTER*COUNT
//	> withdraw | take | detach | attach | reset REASON | stats
//	> data SEQ I/N TEXT     from the peer; also: ack, heartbeat, resume, reset. All take
//	                        ack=N bits=BITS win=N epoch=N; data takes bad, resume next=N
//	> acks 3 ack=N ...      so many ack frames
//	> wait DURATION
//	> mute | unmute         the socket takes nothing, or does so again
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/rules/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(want))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("want, got:\n%s", diff)
			}
		})
	}
}

// A script is a stream at play, the test being its peer.
type script struct {
	out    bytes.Buffer
	start  time.Time
	now    time.Time
	stream *Stream
	cipher fakeCipher
	peer   fakeCipher // seals what the stream opens
	record map[string]Data
	first  uint64
	phase  phase
	muted  bool
}

func play(text string) (string, error) {
	start := time.Unix(1_000_000, 0)
	p := &script{start: start, now: start, record: map[string]Data{}}
	cfg := config(&p.cipher)
	cfg.limits = limits{piece: 16, segments: 64, bytes: 2048}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			fmt.Fprintln(&p.out, line)
			continue
		}
		if rest, ok := strings.CutPrefix(line, "config "); ok {
			fmt.Fprintln(&p.out, line)
			if err := p.configure(&cfg, strings.Fields(rest)); err != nil {
				return "", err
			}
			continue
		}
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue // an answer
		}
		if p.stream == nil {
			p.stream = New(cfg, p.now)
			p.first = cfg.limits.first
			p.cipher.sealed, p.cipher.opened = p.first, p.first
		}
		fmt.Fprintln(&p.out, line)
		if err := p.do(strings.Fields(command)); err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
	}
	return p.out.String(), nil
}

func (p *script) configure(cfg *Config, words []string) error {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil && key != "profile" {
			return err
		}
		switch key {
		case "profile":
			cfg.Profile = map[string]Profile{"reliable": Reliable, "codex": Codex}[value]
		case "piece":
			cfg.limits.piece = n
		case "segments":
			cfg.limits.segments = n
		case "bytes":
			cfg.limits.bytes = n
		case "message":
			cfg.limits.message = n
		case "first":
			cfg.limits.first = uint64(n)
		default:
			return fmt.Errorf("unknown setting %q", key)
		}
	}
	return nil
}

func (p *script) do(words []string) error {
	s := p.stream
	switch words[0] {
	case "write":
		if err := s.Write([]byte(spelled(words[1]))); err != nil {
			p.say("error: %v", err)
		}
	case "withdraw":
		p.say("withdrawn: %v", s.Withdraw())
	case "take":
		if m, ok := s.Message(p.now); ok {
			p.say("message %s", short(m))
		} else {
			p.say("no message")
		}
	case "detach":
		s.Detach(p.now)
	case "attach":
		s.Attach(p.now)
	case "close":
		s.Reset(words[1])
	case "stats":
		p.say("%s; %+v", s.Cursors(), s.Stats())
	case "mute":
		p.muted = true
	case "unmute":
		p.muted = false
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		return p.wait(d)
	default:
		if err := p.receive(words); err != nil {
			return err
		}
	}
	return p.pump()
}

// receive is a frame from the peer.
func (p *script) receive(words []string) error {
	var f Frame
	times := 1
	kinds := map[string]Kind{"data": KindData, "ack": KindAck, "acks": KindAck, "heartbeat": KindHeartbeat, "resume": KindResume, "reset": KindReset}
	if f.Kind = kinds[words[0]]; f.Kind == 0 {
		return errors.New("unknown command")
	}
	f.Ack.HasWindow, f.Ack.Window = true, uint32(p.first)+uint32(p.stream.cfg.limits.segments)
	if f.Ack.Window == 0 || p.first > maxSeq-64 {
		f.Ack.Window = maxSeq
	}
	rest := words[1:]
	switch words[0] {
	case "data":
		f.Data = p.segment(words)
		rest = words[4:]
	case "acks":
		times, _ = strconv.Atoi(words[1])
		rest = words[2:]
	case "reset":
		f.Reason, rest = words[1], words[2:]
	}
	for _, word := range rest {
		key, value, _ := strings.Cut(word, "=")
		if key == "bad" {
			f.Data.Payload = bytes.Clone(f.Data.Payload)
			f.Data.Payload[len(f.Data.Payload)-1] ^= 1
			continue
		}
		n, err := strconv.ParseUint(value, 0, 32)
		if err != nil && value != "none" {
			return err
		}
		switch key {
		case "ack":
			f.Ack.HasAck, f.Ack.Ack = true, uint32(n)
			if explicit := strings.Contains(strings.Join(rest, " "), "win="); !explicit && f.Ack.Window != maxSeq {
				f.Ack.Window = uint32(n) + 1 + uint32(p.stream.cfg.limits.segments)
			}
		case "bits":
			f.Ack.Bits = uint32(n)
		case "win":
			f.Ack.Window, f.Ack.HasWindow = uint32(n), value != "none"
		case "epoch":
			f.Epoch = uint32(n)
		case "next":
			f.NextSeq = uint32(n)
		default:
			return fmt.Errorf("unknown word %q", word)
		}
	}
	for range times {
		p.stream.Handle(p.now, f)
	}
	return nil
}

// segment seals what the peer sends; the same again is the same record.
func (p *script) segment(words []string) Data {
	name := strings.Join(words[1:4], " ")
	if d, ok := p.record[name]; ok {
		return d
	}
	seq, _ := strconv.ParseUint(words[1], 0, 32)
	d := Data{Seq: uint32(seq)}
	fmt.Sscanf(words[2], "%d/%d", &d.Index, &d.Count)
	p.peer.sealed = seq
	text := spelled(words[3])
	if p.stream.cfg.Profile == Codex && strings.HasPrefix(text, "<") { // <LENGTH>TEXT
		length, body, _ := strings.Cut(text[1:], ">")
		n, _ := strconv.Atoi(length)
		text = string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + spelled(body)
	}
	d.Payload, _ = p.peer.seal(Data{Seq: d.Seq, Index: d.Index, Count: d.Count}, nil, []byte(text))
	p.record[name] = d
	return d
}

// wait lets time pass, from deadline to deadline.
func (p *script) wait(d time.Duration) error {
	end := p.now.Add(d)
	for {
		next := p.stream.Deadline()
		if next.IsZero() || next.After(end) {
			p.now = end
			return p.pump()
		}
		p.now = next
		p.stream.Advance(p.now)
		if err := p.pump(); err != nil {
			return err
		}
	}
}

// pump sends all there is to send, and says what happened.
func (p *script) pump() error {
	for !p.muted {
		f, ok := p.stream.Next(p.now)
		if !ok {
			break
		}
		p.say("%s", describe(f))
	}
	if p.stream.phase != p.phase {
		p.phase = p.stream.phase
		if p.phase == ended {
			p.say("ended: %v", p.stream.Err())
		} else {
			p.say("%v", p.phase)
		}
	}
	return check(p.stream, p.now, !p.muted)
}

func (p *script) say(format string, args ...any) {
	fmt.Fprintf(&p.out, "%8.3f %s\n", p.now.Sub(p.start).Seconds(), fmt.Sprintf(format, args...))
}

func spelled(text string) string {
	if letter, count, ok := strings.Cut(text, "*"); ok {
		if n, err := strconv.Atoi(count); err == nil {
			return strings.Repeat(letter, n)
		}
	}
	return text
}

func short(b []byte) string {
	if len(b) > 20 {
		return fmt.Sprintf("%q... (%d)", b[:4], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// describe is a frame in a line.
func describe(f Frame) string {
	var b strings.Builder
	b.WriteString(f.Kind.String())
	switch f.Kind {
	case KindData:
		fmt.Fprintf(&b, " %d %d/%d %s", f.Data.Seq, f.Data.Index, f.Data.Count, short(f.Data.Payload[min(tagSize, len(f.Data.Payload)):]))
	case KindResume:
		fmt.Fprintf(&b, " next=%d", f.NextSeq)
	case KindReset:
		fmt.Fprintf(&b, " %s", f.Reason)
	case KindAck, KindHeartbeat:
	}
	if f.Ack.HasAck {
		fmt.Fprintf(&b, " ack=%d", f.Ack.Ack)
	}
	if f.Ack.Bits != 0 {
		fmt.Fprintf(&b, " bits=0b%b", f.Ack.Bits)
	}
	if f.Ack.HasWindow {
		fmt.Fprintf(&b, " win=%d", f.Ack.Window)
	}
	if f.Epoch != 0 {
		fmt.Fprintf(&b, " epoch=%d", f.Epoch)
	}
	return b.String()
}
