package computer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server"
)

// What sessions hold is of the one budget: however many of them take what they can, there
// is something left for others.
func TestSM4SessionsShareTheBudget(t *testing.T) {
	w := newWorldOf(t, 16<<20)
	value := strings.Repeat("x", 3<<10) // is received without waiting for memory
	var greedy []*websocket.Conn
	for range 4 {
		ws := w.socket(t, "/ws")
		greedy = append(greedy, ws)
		for id := 1; ; id++ {
			say(t, ws, `["push","`+value+`"]`, fmt.Sprintf(`["pull",%d]`, id))
			if answer := hear(t, ws); !strings.HasPrefix(answer, `["resolve"`) {
				if !strings.Contains(answer, "memory is in use") {
					t.Fatalf("%.200s", answer)
				}
				break
			}
		}
		if used := w.budget.Used(); used > w.budget.Size() {
			t.Errorf("%d bytes are in use of %d", used, w.budget.Size())
		}
	}
	if got := ask(t, w.socket(t, "/api"), `["sync","watermarks"],[]`); !strings.HasPrefix(got, `["resolve",1,`) {
		t.Errorf("%.200s", got)
	}
	batch := strings.Repeat(" ", 1<<20) + "\n" + `["push",["pipeline",0,["sync","watermarks"],[]]]` + "\n" + `["pull",1]`
	if got, body := do(t, "POST", w.url+"/api", batch); got.StatusCode != http.StatusOK || !strings.HasPrefix(body, `["resolve",1,`) {
		t.Errorf("%d %.200s", got.StatusCode, body)
	}
	for _, ws := range greedy {
		ws.Close()
	}
	eventually(t, "what the sessions held is given back", func() bool { return w.budget.Used() == 0 })
}

// A client that has sent nothing for long gives its place to another, if there is no place
// left. One that has sent something, or is new, keeps it.
func TestSL6MuteSessionsGiveTheirPlaces(t *testing.T) {
	w := newWorld(t, func(cfg *Config, _ *server.HTTPConfig) { cfg.MaxSessions = 3 })
	talks := w.session(t)
	mute, young := w.socket(t, "/ws"), w.socket(t, "/ws")
	if err := talks.Main().At("sync").Call(t.Context(), nil, "watermarks"); err != nil {
		t.Fatal(err)
	}
	age := func(name string, by time.Duration) {
		w.computer.mu.Lock()
		defer w.computer.mu.Unlock()
		for s := range w.computer.sessions {
			if s.remote == name {
				s.began = s.began.Add(-by)
			}
		}
	}
	refused := func() bool {
		ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.url, "http")+"/ws", nil)
		if err == nil {
			t.Cleanup(func() { ws.Close() })
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	}
	w.computer.mu.Lock()
	for s := range w.computer.sessions {
		if s.spoke.Load() {
			s.began = s.began.Add(-time.Hour)
		}
	}
	w.computer.mu.Unlock()
	if !refused() {
		t.Fatal("a fourth session")
	}
	age(mute.LocalAddr().String(), protocol.InitializeTimeout)
	if refused() {
		t.Fatal("no place although one of those that have it is mute")
	}
	_ = mute.SetReadDeadline(time.Now().Add(time.Minute))
	if _, _, err := mute.ReadMessage(); !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("the mute one: %v", err)
	}
	if got := ask(t, young, `["sync","watermarks"],[]`); !strings.HasPrefix(got, `["resolve",1,`) {
		t.Errorf("the new one: %.200s", got)
	}
	if err := talks.Main().At("sync").Call(t.Context(), nil, "watermarks"); err != nil {
		t.Errorf("one that talks: %v", err)
	}
	if !refused() {
		t.Error("the place of one that has just come is given away")
	}
}
