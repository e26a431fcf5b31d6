package execserver_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

var update = flag.Bool("update", false, "rewrite the answers of the transcripts as they are given, for review")

// TestTranscripts runs each transcript over each kind of connection.
func TestTranscripts(t *testing.T) {
	kinds := []string{kindPair, kindWebSocket, kindUnix, kindStdio}
	if os.Getenv(targetVariable) != "" {
		kinds = []string{kindWebSocket}
	}
	for _, file := range transcriptFiles(t) {
		tr, err := readTranscript(file)
		if err != nil {
			t.Fatal(err)
		}
		if tr.wsdOnly && os.Getenv(targetVariable) != "" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			for i, kind := range kinds {
				if tr.kinds != nil && !slices.Contains(tr.kinds, kind) || *update && i > 0 && tr.kinds == nil {
					continue
				}
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					newRunner(t, tr, kind).run()
				})
			}
		})
	}
}

// A runner runs one transcript over one kind of connection.
type runner struct {
	t       *testing.T
	tr      *transcript
	target  *target
	match   *matcher
	dir     string
	words   map[string]string // what stands for $W, $U and $H
	inverse *strings.Replacer // for -update
	conns   map[string]*conversation
	conn    *conversation // in use
	name    string        // of conn
	probes  int
	retry   int            // the code that @retry named, 0 for none
	pending string         // the id of the latest request, if nothing has been expected since
	sent    step           // that request
	changed map[int]string // lines to rewrite
}

func newRunner(t *testing.T, tr *transcript, kind string) *runner {
	dir := privateDir(t)
	if err := tr.prepare(dir); err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, kind)
	uri := (&url.URL{Scheme: "file", Path: dir}).String()
	r := &runner{
		t: t, tr: tr, target: target, dir: dir, conns: make(map[string]*conversation), changed: make(map[int]string),
		match: &matcher{kind: target.kind, saved: make(map[string]string), original: target.original},
	}
	web := newWebServer(t)
	r.words = map[string]string{"W": dir, "U": uri, "H": web}
	r.inverse = strings.NewReplacer(uri, "$U", dir, "$W", web, "$H")
	return r
}

func (r *runner) run() {
	r.use("a")
	for i := 0; i < len(r.tr.steps); {
		n, err := r.do(r.tr.steps[i:])
		if err != nil {
			s := r.tr.steps[i]
			r.t.Fatalf("%s: transcript line %d: %s %s\n%v", r.tr.file, s.line+1, s.op, s.text, err)
		}
		i += n
	}
	if err := r.fill(); err != nil {
		r.t.Fatal(err)
	}
	if *update && len(r.changed) > 0 {
		if err := r.tr.rewrite(r.changed); err != nil {
			r.t.Fatal(err)
		}
	}
}

// do runs the first of the steps, and its neighbours where they belong together.
func (r *runner) do(steps []step) (n int, err error) {
	s := steps[0]
	switch s.op {
	case "->":
		return 1, r.send(s, s.text)
	case "->q", "->*":
		text, err := s.special()
		if err != nil {
			return 1, err
		}
		return 1, r.send(s, text)
	case "<-":
		r.pending = ""
		return 1, r.expect(s)
	case "@":
		if err := r.fill(); err != nil {
			return 1, err
		}
		return 1, r.command(s.text)
	}
	r.pending = ""
	n = 1
	for n < len(steps) && (steps[n].op == "<~" || steps[n].op == "<<") {
		n++
	}
	return n, r.expectGroup(steps[:n])
}

var dollarWord = regexp.MustCompile(`\$[a-zA-Z]\w*`)

// expand puts the values in for the words that stand for them.
func (r *runner) expand(text string) string {
	return dollarWord.ReplaceAllStringFunc(text, func(word string) string {
		for _, values := range []map[string]string{r.words, r.match.saved} {
			if value, ok := values[word[1:]]; ok {
				return value
			}
		}
		return word
	})
}

func (r *runner) send(s step, text string) error {
	if err := r.fill(); err != nil {
		return err
	}
	text = r.expand(text)
	if strings.Contains(text, `"resumeSessionId":"`) {
		r.conn.rules.resumed.Store(true)
	}
	for {
		if err := r.conn.link.write([]byte(text)); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if r.retry == 0 {
			break
		}
		f, err := r.conn.peek()
		if err != nil {
			return err
		}
		if f.Error == nil || f.Error.Code != r.retry {
			r.retry = 0
			break
		}
		if _, err := r.conn.next(); err != nil {
			return err
		}
	}
	var head struct{ ID json.RawMessage }
	if json.Unmarshal([]byte(text), &head) == nil && head.ID != nil {
		r.pending, r.sent = string(head.ID), s
	}
	return nil
}

// fill, for -update, writes down what answers a request that no answer stands below.
func (r *runner) fill() error {
	id := r.pending
	r.pending = ""
	if !*update || id == "" {
		return nil
	}
	text := r.sent.op + " " + r.sent.text
	for {
		f, err := r.conn.next()
		if err != nil {
			return err
		}
		text += "\n<- " + r.inverse.Replace(string(f.raw))
		if string(f.ID) == id || string(f.ID) == "-1" {
			break
		}
	}
	r.changed[r.sent.line] = text
	return nil
}

func (r *runner) expect(s step) error {
	f, err := r.conn.next()
	if err != nil {
		return err
	}
	if err := r.match.match(r.expand(s.text), string(f.raw)); err != nil {
		if *update {
			r.changed[s.line] = "<- " + r.inverse.Replace(string(f.raw))
			return nil
		}
		return fmt.Errorf("got %s\n%w", f.raw, err)
	}
	return nil
}

// output is what a << line waits for: a text, or any that is not empty.
type output struct {
	process, stream, left string
	any                   bool
	taken                 int // how many chunks
}

// expectGroup takes messages until each of the steps has had its own.
func (r *runner) expectGroup(steps []step) error {
	var patterns []string
	var outputs []*output
	for _, s := range steps {
		if s.op == "<~" {
			patterns = append(patterns, r.expand(s.text))
			continue
		}
		args, err := splitArgs(s.text)
		if err != nil || len(args) != 3 {
			return fmt.Errorf("want a process, a stream and a text: %v", err)
		}
		outputs = append(outputs, &output{process: args[0], stream: args[1], left: r.expand(args[2]), any: args[2] == "*"})
	}
	for len(patterns) > 0 || len(outputs) > 0 {
		if len(patterns) == 0 && len(outputs) == 1 && outputs[0].any && outputs[0].taken > 0 {
			return r.takeAll(outputs[0])
		}
		f, err := r.conn.next()
		if err != nil {
			return fmt.Errorf("%w; still expected: %v", err, patterns)
		}
		if i := slices.IndexFunc(patterns, func(p string) bool { return r.match.match(p, string(f.raw)) == nil }); i >= 0 {
			patterns = slices.Delete(patterns, i, i+1)
			continue
		}
		i := slices.IndexFunc(outputs, func(o *output) bool { return o.take(f) })
		if i < 0 {
			return fmt.Errorf("got %s, want one of %v or %d outputs", f.raw, patterns, len(outputs))
		}
		if outputs[i].left == "" && !outputs[i].any {
			outputs = slices.Delete(outputs, i, i+1)
		}
	}
	return nil
}

// take reports whether f is the next part of the output.
func (o *output) take(f *frame) bool {
	var p struct {
		ProcessID string `json:"processId"`
		wireChunk
	}
	if f.Method != "process/output" || json.Unmarshal(f.Params, &p) != nil || p.ProcessID != o.process || p.Stream != o.stream {
		return false
	}
	c, err := f.chunk(p.wireChunk)
	rest, ok := strings.CutPrefix(o.left, string(c.Chunk))
	if ok {
		o.left = rest
	}
	o.taken++
	return err == nil && (ok || o.any)
}

// takeAll takes what comes of o until something else does.
func (r *runner) takeAll(o *output) error {
	for {
		f, err := r.conn.peek()
		if err != nil || !o.take(f) {
			return err
		}
		if _, err := r.conn.next(); err != nil {
			return err
		}
	}
}

func (r *runner) command(text string) error {
	name, arg, _ := strings.Cut(text, " ")
	switch name {
	case "ready":
		return r.handshake()
	case "open":
		return r.checkOpen()
	case "closed":
		return r.checkClosed(arg)
	case "on":
		r.use(arg)
		return nil
	case "eof":
		l, ok := r.conn.link.(*stdioLink)
		if !ok {
			return errors.New("this connection has one end only")
		}
		return l.in.Close()
	case "drop":
		delete(r.conns, r.name)
		return r.conn.link.close()
	case "retry":
		code, err := strconv.Atoi(arg)
		r.retry = code
		return err
	}
	return fileCommand(r.dir, r.expand(text))
}

// use makes name the connection in use.
func (r *runner) use(name string) {
	if r.conns[name] == nil {
		r.conns[name] = converse(r.t, r.target.dial(r.t), !r.target.original)
	}
	r.conn, r.name = r.conns[name], name
}

// handshake initializes the connection in use.
func (r *runner) handshake() error {
	if err := r.conn.link.write([]byte(`{"id":0,"method":"initialize","params":{"clientName":"transcript"}}`)); err != nil {
		return err
	}
	f, err := r.conn.next()
	if err != nil {
		return err
	}
	if err := r.match.match(`{"id":0,"result":{"sessionId":"$save:session","environmentInfo":"$any"}}`, string(f.raw)); err != nil {
		return err
	}
	return r.conn.link.write([]byte(`{"method":"initialized","params":{}}`))
}

// checkOpen asks for something that is answered at any time.
func (r *runner) checkOpen() error {
	r.probes++
	id := fmt.Sprintf(`"open-%d"`, r.probes)
	if err := r.conn.link.write([]byte(`{"id":` + id + `,"method":"environment/status"}`)); err != nil {
		return err
	}
	f, err := r.conn.next()
	if err == nil && string(f.ID) != id {
		err = fmt.Errorf("got %s, want nothing but the answer to %s", f.raw, id)
	}
	return err
}

// checkClosed waits for the server to close, with the close code of a WebSocket. The
// original sends none.
func (r *runner) checkClosed(code string) error {
	f, err := r.conn.next()
	if err == nil {
		return fmt.Errorf("got %s, want the end", f.raw)
	}
	if errors.Is(err, errPatience) {
		return err
	}
	closed := r.target.kind == kindWebSocket || r.target.kind == kindUnix
	if code == "" || !closed || r.target.original {
		return nil
	}
	fault, ok := errors.AsType[*websocket.CloseError](err)
	if !ok || strconv.Itoa(fault.Code) != code {
		return fmt.Errorf("ended by %v, want close code %s", err, code)
	}
	return nil
}

var errPatience = errors.New("nothing came in time")

// A conversation reads a link, and checks what it reads.
type conversation struct {
	link   link
	rules  *ledger
	frames chan *frame
	err    error // why frames ended
	ahead  *frame
}

// converse reads l until it ends, and closes it when the test does. The original does
// not keep the order that the rules ask for.
func converse(t *testing.T, l link, rules bool) *conversation {
	c := &conversation{link: l, rules: newLedger(), frames: make(chan *frame, 1<<16)}
	go func() { // the cleanup waits for it
		defer close(c.frames)
		for {
			raw, err := l.read()
			if err != nil {
				c.err = err
				return
			}
			f, err := parseFrame(slices.Clone(raw))
			if err == nil && rules {
				err = c.rules.note(f)
			}
			if err != nil {
				c.err = err
				return
			}
			c.frames <- f
		}
	}()
	t.Cleanup(func() {
		l.close()
		for range c.frames {
		}
	})
	return c
}

func (c *conversation) peek() (*frame, error) {
	if c.ahead == nil {
		f, err := c.next()
		if err != nil {
			return nil, err
		}
		c.ahead = f
	}
	return c.ahead, nil
}

// next returns the next message.
func (c *conversation) next() (*frame, error) {
	if f := c.ahead; f != nil {
		c.ahead = nil
		return f, nil
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case f, ok := <-c.frames:
		if !ok {
			return nil, c.err
		}
		return f, nil
	case <-timeout.C:
		return nil, errPatience
	}
}
