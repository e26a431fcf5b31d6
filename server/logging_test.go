package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// logBuffer is a writer that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The log tells the life of a connection, and nothing of what it carries.
func TestLog(t *testing.T) {
	var log logBuffer
	w := newWorld(t, Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	addr := w.listen(HTTPConfig{Authorize: func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer s3cret-token" {
			return errors.New("invalid websocket bearer token")
		}
		return nil
	}})
	ask(t, addr, "GET / HTTP/1.1\r\nX-Request-Id: req-0\r\nAuthorization: Bearer s3cret-wrong\r\n"+upgrade)
	f := dialFramesWith(t, addr, "X-Request-Id: req-1\r\nAuthorization: Bearer s3cret-token\r\n")
	f.open()
	for _, msg := range []string{
		`{"id":1,"method":"fs/getMetadata","params":{"path":"s3cret-path"}}`,
		`{"id":2,"method":"process/start","params":{"processId":"s3cret-id","argv":[]}}`,
		`{"id":3,"method":"test/crash"}`,
	} {
		f.write(frame(bitFin|opText, msg))
		f.read()
	}
	f.write(frame(bitFin|opText, `{"method":"`+strings.Repeat("m", 10_000)+`"}`))
	if _, text := f.read(); len(text) > 300 {
		t.Errorf("a client's own words come back at length: %d bytes", len(text))
	}
	f.conn.Close()
	eventually(t, "the end is logged", func() bool { return strings.Contains(log.String(), "connection ended") })

	all := log.String()
	for _, want := range []string{
		`level=WARN msg="connection refused" conn=127.0.0.1:`, "request=req-0", `err="invalid websocket bearer token"`,
		`level=INFO msg=listening url=ws://127.0.0.1:`,
		`level=INFO msg="connection initialized" conn=127.0.0.1:`, "request=req-1", "client=test",
		"level=DEBUG msg=request", "method=fs/getMetadata", "method=process/start", "code=-32602",
		`level=ERROR msg="request panicked" method=test/crash`,
		`level=INFO msg="session detached"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in the log:\n%s", want, all)
		}
	}
	if strings.Contains(all, "s3cret") {
		t.Errorf("payload or token in the log:\n%s", all)
	}
}
