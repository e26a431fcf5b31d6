//go:build e2e && linux

package endurance

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
)

const (
	hostileMessages = 10_000
	hostileSeed     = 0x77_73_64
)

// Ten thousand malformed and hostile messages leave the server serving, holding nothing
// it did not hold before, with as much memory as after the first half.
func TestHostileMessages(t *testing.T) {
	server := start(t, "--session-grace", "0s")
	warm(t, server)
	g := &generator{rng: rand.New(rand.NewPCG(hostileSeed, 0)), dir: "file://" + t.TempDir()}
	healthy := dial(t, server)
	idle := look(t, server)
	a := &attacker{t: t, server: server}
	var half, end int64
	for i := range hostileMessages {
		a.send(g.next(i))
		if (i+1)%20 == 0 {
			a.sync()
		}
		if (i+1)%1000 != 0 {
			continue
		}
		if err := healthy.Call("environment/status", struct{}{}, nil); err != nil {
			t.Fatalf("after message %d another client is no longer served: %v", i, err)
		}
		rss, err := server.RSS()
		if err != nil {
			t.Fatal(err)
		}
		if i < hostileMessages/2 {
			half = max(half, rss)
		} else {
			end = max(end, rss)
		}
	}
	a.close()
	after := settled(t, server, idle)
	t.Logf("%d messages on %d connections, %d answers", hostileMessages, a.connections, a.answers.Load())
	t.Logf("at most %.1f MB during the first half, %.1f MB during the second, %.1f MB at the peak",
		float64(half)/1e6, float64(end)/1e6, float64(peak(t, server))/1e6)
	t.Logf("before: %v", idle)
	t.Logf("after:  %v", after)
	if grown := end - half; grown > 4<<20 {
		t.Errorf("memory is not flat: it grew by %.1f MB from the first half to the second", float64(grown)/1e6)
	}
	if a.answers.Load() < hostileMessages/2 {
		t.Errorf("%d answers only: the messages did not arrive", a.answers.Load())
	}
	warm(t, server)
}

// Large messages cost memory while they are looked at, and only so much of it.
func TestLargeMessages(t *testing.T) {
	const limit = 400 << 20 // six times the largest message there may be
	server := start(t, "--session-grace", "0s")
	warm(t, server)
	g := &generator{rng: rand.New(rand.NewPCG(hostileSeed, 1)), dir: "file://" + t.TempDir()}
	idle := look(t, server)
	a := &attacker{t: t, server: server}
	for range 60 {
		a.send(g.large(128))
		a.sync()
	}
	a.close()
	after := settled(t, server, idle)
	most := peak(t, server)
	t.Logf("%.1f MB at the peak; after: %v", float64(most)/1e6, after)
	if most > limit {
		t.Errorf("the server held %.1f MB", float64(most)/1e6)
	}
	warm(t, server)
}

// An attacker sends messages and reads what comes back. When its connection is closed
// on it, it opens another.
type attacker struct {
	t           *testing.T
	server      *target.Server
	c           *raw.Client
	done        chan struct{} // closed when the reader of c has ended
	synced      chan struct{} // gets one for each answer to sync
	connections int
	answers     atomic.Int64
}

func (a *attacker) send(h hostile) {
	a.t.Helper()
	if a.c != nil {
		select {
		case <-a.done: // the server has had enough
			a.close()
		default:
		}
	}
	if a.c == nil {
		a.open()
	}
	var err error
	switch {
	case h.bytes != nil:
		_ = a.c.Conn().SetWriteDeadline(time.Now().Add(time.Minute))
		_, err = a.c.Conn().Write(h.bytes)
	case h.binary:
		err = a.c.SendBinary(h.message)
	default:
		err = a.c.Send(h.message)
	}
	if err == nil && h.fatal {
		select {
		case <-a.done:
		case <-time.After(time.Minute):
			a.t.Fatalf("the server goes on after % x", h.bytes[:min(len(h.bytes), 16)])
		}
	}
	if err != nil || h.fatal {
		a.close()
	}
}

// sync waits until the server has dealt with everything sent so far, or has closed
// the connection.
func (a *attacker) sync() {
	a.t.Helper()
	if a.c == nil {
		return
	}
	if a.c.Send([]byte(`{"id":"sync","method":"environment/status","params":{}}`)) != nil {
		return // the next send sees to it
	}
	select {
	case <-a.synced:
	case <-a.done:
	case <-time.After(time.Minute):
		a.t.Fatal("the server answers no more")
	}
}

func (a *attacker) open() {
	c, err := raw.Dial(a.t.Context(), a.server.Addr, raw.Config{Timeout: 30 * time.Second})
	if err == nil {
		_, err = c.Initialize("")
	}
	if err != nil {
		a.t.Fatalf("after %d connections the server takes no more: %v", a.connections, err)
	}
	a.c, a.done, a.synced = c, make(chan struct{}), make(chan struct{}, 1)
	a.connections++
	go func(done, synced chan struct{}) { // ends with the connection; close waits for it
		defer close(done)
		for {
			msg, err := c.ReadBytes()
			if err != nil {
				c.Close()
				return
			}
			a.answers.Add(1)
			if bytes.Contains(msg, []byte(`"id":"sync"`)) {
				synced <- struct{}{}
			}
		}
	}(a.done, a.synced)
}

func (a *attacker) close() {
	if a.c == nil {
		return
	}
	a.c.Close()
	<-a.done
	a.c = nil
}

// A hostile thing to send: a message, or bytes that are no frame.
type hostile struct {
	message []byte
	binary  bool
	bytes   []byte
	fatal   bool // the stream is out of step afterwards
}

// A generator makes hostile messages, the same for the same seed.
type generator struct {
	rng *rand.Rand
	dir string
}

// templates are good requests that do no harm however they are bent: what they name
// is not there, and nothing of them removes or creates. %D is a directory.
var templates = []string{
	`{"id":1,"method":"process/start","params":{"processId":"h","argv":["true"],"cwd":"file:///","env":{"A":"b"},"tty":false,"pipeStdin":false,"arg0":null,"envPolicy":{"inherit":"none","ignoreDefaultExcludes":true,"exclude":["*X*"],"set":{},"includeOnly":[]},"sandbox":null,"metadata":{"threadId":null}}}`,
	`{"id":2,"method":"process/read","params":{"processId":"h","afterSeq":0,"maxBytes":10,"waitMs":1}}`,
	`{"id":3,"method":"process/write","params":{"processId":"h","chunk":"aGVsbG8=","writeId":"1"}}`,
	`{"id":4,"method":"process/terminate","params":{"processId":"none"}}`,
	`{"id":5,"method":"fs/readFile","params":{"path":"%D/missing/x","sandbox":null}}`,
	`{"id":6,"method":"fs/getMetadata","params":{"path":"%D/missing/x"}}`,
	`{"id":7,"method":"fs/open","params":{"handleId":"h","path":"%D/missing/x","mode":"read"}}`,
	`{"id":8,"method":"fs/readBlock","params":{"handleId":"h","offset":0,"len":1}}`,
	`{"id":9,"method":"fs/walk","params":{"path":"%D/missing","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}}`,
	`{"id":10,"method":"environment/info","params":{}}`,
	`{"id":11,"method":"initialize","params":{"clientName":"x","resumeSessionId":"8519f864-29c3-4e67-9632-fc3ab38e457c"}}`,
	`{"id":12,"method":"fs/readDirectory","params":{"path":"%D/missing"}}`,
	`{"id":13,"method":"http/request","params":{"method":"GET","url":"http://127.0.0.1:1/","requestId":"r","headers":[{"name":"a","value":"b"}],"bodyBase64":null,"timeoutMs":10,"redirectPolicy":"stop","streamResponse":false}}`,
	`{"id":14,"method":"fs/getMetadata","params":{"path":"%D/missing/x","sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"%D","workspaceRoots":["%D"],"windowsSandboxLevel":"disabled"}}}`,
	`{"id":15,"method":"fs/glob","params":{"path":"%D/missing","pattern":"**/{a,b}*[c-d]"}}`,
	`{"id":16,"method":"fs/grep","params":{"path":"%D/missing","pattern":"(a+)+$"}}`,
	`{"method":"initialized","params":{}}`,
	`{"id":17,"result":{}}`,
	`{"error":{"code":-32600,"message":"no"},"id":18}`,
}

func (g *generator) next(i int) hostile {
	if i%250 == 249 {
		return g.large(1)
	}
	text := bytes.ReplaceAll([]byte(templates[g.rng.IntN(len(templates))]), []byte("%D"), []byte(g.dir))
	switch g.rng.IntN(12) {
	case 0: // cut off
		return hostile{message: text[:g.rng.IntN(len(text))]}
	case 1: // a few bytes replaced by anything
		for range 1 + g.rng.IntN(4) {
			text[g.rng.IntN(len(text))] = byte(g.rng.UintN(256))
		}
		// Bytes that are no UTF-8 go as binary: in a text message they end the connection.
		return hostile{message: text, binary: true}
	case 2: // a value of another type
		return hostile{message: g.swap(text)}
	case 3: // something inserted
		at := g.rng.IntN(len(text))
		return hostile{message: bytes.Join([][]byte{text[:at], []byte(fragments[g.rng.IntN(len(fragments))]), text[at:]}, nil)}
	case 4: // a part twice, so also keys twice
		from := g.rng.IntN(len(text))
		to := from + g.rng.IntN(len(text)-from)
		return hostile{message: bytes.Join([][]byte{text[:to], text[from:]}, nil)}
	case 5: // no JSON-RPC at all
		return hostile{message: []byte(fragments[g.rng.IntN(len(fragments))])}
	case 6: // an unknown method
		return hostile{message: bytes.Replace(text, []byte(`/`), []byte(`/no-such-`), 1)}
	case 7: // two messages in one
		return hostile{message: append(append(bytes.Clone(text), '\n'), text...)}
	case 8: // a batch
		return hostile{message: append(append([]byte{'['}, text...), ']')}
	case 9: // as it is: requests out of place, answers that nobody asked for
		return hostile{message: text, binary: g.rng.IntN(2) == 0}
	case 10: // random bytes
		noise := make([]byte, g.rng.IntN(400))
		for i := range noise {
			noise[i] = byte(g.rng.UintN(256))
		}
		return hostile{message: noise, binary: true}
	default:
		return g.frame(text)
	}
}

// fragments are bits of JSON that decoders stumble over.
var fragments = []string{
	`null`, `{}`, `[]`, `"`, `\`, `{"`, `]]]]`, `,,`, `1e999`, `-0`, `18446744073709551616`, `9223372036854775808`,
	`"\ud800"`, `"\u0000"`, "\x00", `{"id":{}}`, `{"id":1.5,"method":"x"}`, `{"id":true,"method":"environment/info"}`,
	`{"id":null,"method":"environment/info"}`, `{"id":1,"id":2,"method":"environment/info"}`, `{"method":1}`,
	`{"id":1,"method":"environment/info","params":[]}`, `{"id":1,"method":"environment/info","params":7}`,
	`{"id":1,"method":"environment/info","trace":7}`, `{"id":1,"method":""}`, `{"jsonrpc":"1.0"}`, ``, ` `, "\ufeff{}",
	`{"id":1,"method":"initialize"}`, `{"id":1,"method":"initialize","params":{"clientName":1}}`,
}

// swap replaces one value by one of another type.
func (g *generator) swap(text []byte) []byte {
	var at []int
	for i := range text {
		if text[i] == ':' && i+1 < len(text) {
			at = append(at, i+1)
		}
	}
	if len(at) == 0 {
		return text
	}
	from := at[g.rng.IntN(len(at))]
	to := from
	for depth, quoted := 0, false; to < len(text); to++ {
		switch b := text[to]; {
		case b == '"':
			quoted = !quoted
			continue
		case quoted:
			continue
		case b == '{' || b == '[':
			depth++
			continue
		case (b == '}' || b == ']') && depth > 0:
			depth--
			continue
		case depth > 0 || b != ',' && b != '}' && b != ']':
			continue
		}
		break
	}
	others := []string{`null`, `true`, `-1`, `1.5`, `"text"`, `[]`, `{}`, `[[[[]]]]`, `{"a":{"b":null}}`, `1e400`, `""`}
	return bytes.Join([][]byte{text[:from], []byte(others[g.rng.IntN(len(others))]), text[to:]}, nil)
}

// large makes a message that costs more than it is worth: up to 64 KiB times scale.
func (g *generator) large(scale int) hostile {
	repeat := func(s string, n int) []byte { return bytes.Repeat([]byte(s), n*scale) }
	wrap := func(head string, body []byte, tail string) hostile {
		return hostile{message: append(append([]byte(head), body...), tail...)}
	}
	switch g.rng.IntN(7) {
	case 0:
		return hostile{message: repeat("[", 64<<10)}
	case 1:
		return wrap(`{"id":1,"method":"environment/info","params":[0`, repeat(",0", 20_000), `]}`)
	case 2:
		return wrap(`{"id":1,"method":"fs/readFile","params":{"path":"file:///`, repeat("a", 64<<10), `"}}`)
	case 3:
		return wrap(`{"id":1,"method":"process/start","params":{"processId":"`, repeat("p", 64<<10), `","argv":["true"]}}`)
	case 4:
		return wrap(`{"id":1,"method":"process/write","params":{"processId":"none","writeId":"1","chunk":"`, repeat("AAAA", 16<<10), `"}}`)
	case 5:
		return wrap(`{"id":1,"method":"`, repeat("m", 64<<10), `"}`)
	default:
		return wrap(`{"id":1,"method":"environment/info","params":`, repeat(`{"a":`, 100), `1`+string(repeat("}", 100))+`}`)
	}
}

// frame makes bytes that are no good frame.
func (g *generator) frame(text []byte) hostile {
	short := text[:min(len(text), 100)]
	head := func(first, second byte) []byte {
		return append([]byte{first, second, 0, 0, 0, 0}, short...)
	}
	n := byte(len(short))
	switch g.rng.IntN(8) {
	case 0: // not masked
		return hostile{bytes: append([]byte{0x81, n}, short...), fatal: true}
	case 1: // reserved bits
		return hostile{bytes: head(0xF1, 0x80|n), fatal: true}
	case 2: // an opcode that is not there
		return hostile{bytes: head(0x83, 0x80|n), fatal: true}
	case 3: // a fragment that continues nothing
		return hostile{bytes: head(0x80, 0x80|n), fatal: true}
	case 4: // a control frame in fragments
		return hostile{bytes: head(0x09, 0x80|n), fatal: true}
	case 5: // a length beyond all bounds
		return hostile{bytes: append([]byte{0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}, short...), fatal: true}
	case 6: // pings without end
		return hostile{bytes: bytes.Repeat([]byte{0x89, 0x80, 0, 0, 0, 0}, 200)}
	default: // text that is no UTF-8, which may be answered or end the connection
		return hostile{bytes: append([]byte{0x81, 0x84, 0, 0, 0, 0}, 0xff, 0xfe, 0xc0, 0x80)}
	}
}
