package handoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A line is a Sender of texts: what begins with "part" is tried in part, what begins with
// "wait" not at all.
type line struct {
	mu     sync.Mutex
	queue  Queue[string]
	sender *Sender[string]
	room   chan struct{} // lets one that waits go on
	sent   []string
}

func newLine(edit func(*SenderConfig[string])) *line {
	l := &line{room: make(chan struct{})}
	cfg := SenderConfig[string]{Lock: &l.mu, Next: l.queue.Pop, Try: l.try, Send: l.send}
	if edit != nil {
		edit(&cfg)
	}
	l.sender = NewSender(cfg)
	return l
}

func (l *line) try(text string) (finish func()) {
	if strings.HasPrefix(text, "part") || strings.HasPrefix(text, "wait") {
		return func() { l.send(text) }
	}
	l.add(text)
	return nil
}

func (l *line) send(text string) {
	<-l.room
	l.add(text)
}

func (l *line) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, text)
}

func (l *line) put(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.Push(text)
	l.sender.StartAsync()
}

func (l *line) want(t *testing.T, busy bool, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.sent, want) || l.sender.Busy() != busy {
		t.Errorf("sent %q, busy %v; want %q, %v", l.sent, l.sender.Busy(), want, busy)
	}
}

// An item that needs no waiting is sent before StartAsync returns. One that does is sent in
// the background, and those behind it stay behind it.
func TestSendAtOnceOrInBackground(t *testing.T) {
	for _, stalls := range []string{"part", "wait"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(nil)
			l.put("a")
			l.want(t, false, "a")
			l.put(stalls)
			l.put("b")
			idle := make(chan error, 1)
			go func() { idle <- l.sender.Wait(context.Background()) }()
			synctest.Wait()
			l.want(t, true, "a")
			if len(idle) > 0 {
				t.Error("Wait has returned")
			}
			l.room <- struct{}{}
			synctest.Wait()
			l.want(t, true, "a", stalls)
			l.room <- struct{}{}
			if err := <-idle; err != nil {
				t.Error(err)
			}
			l.want(t, false, "a", stalls, "b")
			l.put("c")
			l.want(t, false, "a", stalls, "b", "c")
		})
	}
}

// Without Try all is sent in the background.
func TestSendWithoutTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(func(cfg *SenderConfig[string]) { cfg.Try = nil })
		l.put("a")
		synctest.Wait()
		l.want(t, true)
		l.room <- struct{}{}
		synctest.Wait()
		l.want(t, false, "a")
	})
}

// A caller sends one item at once, and with TryAll all that are due.
func TestTryAll(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(func(cfg *SenderConfig[string]) { cfg.TryAll = all })
			l.mu.Lock()
			l.queue.Push("a")
			l.queue.Push("b")
			rest := l.sender.Start()
			l.mu.Unlock()
			if all {
				l.want(t, false, "a", "b")
				if rest != nil {
					t.Error("something is left")
				}
				return
			}
			l.want(t, true, "a")
			close(l.room)
			rest()
			l.want(t, false, "a", "b")
		})
	}
}

// Send waits for what it sends, and leaves it to a goroutine that sends already.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		send := func(text string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.queue.Push(text)
			l.sender.Send()
		}
		sent := make(chan struct{})
		go func() { defer close(sent); send("a") }()
		synctest.Wait()
		send("b") // returns at once
		l.want(t, true)
		l.room <- struct{}{}
		l.room <- struct{}{}
		<-sent
		l.want(t, false, "a", "b")
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		if err := l.sender.Wait(t.Context()); err != nil {
			t.Errorf("idle: %v", err)
		}
		l.put("wait")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := l.sender.Wait(ctx); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		close(l.room)
	})
}

// Many callers, some of whose items wait: all are sent, once, each caller's in order, and at
// the end nothing runs.
func TestSendConcurrently(t *testing.T) {
	const callers, each = 8, 500
	for _, all := range []bool{false, true} {
		l := newLine(func(cfg *SenderConfig[string]) { cfg.TryAll = all })
		close(l.room)
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					l.put(fmt.Sprintf("%s-%d-%d", []string{"now", "wait", "part"}[(i*7+c)%3], c, i))
					if i%16 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		wg.Wait()
		if err := l.sender.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		next := make([]int, callers)
		for _, text := range l.sent {
			var c, i int
			if _, err := fmt.Sscanf(text[strings.Index(text, "-"):], "-%d-%d", &c, &i); err != nil || next[c] != i {
				t.Fatalf("%s was sent when %d was due: %v", text, next[c], err)
			}
			next[c]++
		}
		if slices.Min(next) != each {
			t.Errorf("sent: %v", next)
		}
	}
}

// A Queue is a list; what has been taken from it is not kept alive.
func TestQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q Queue[*int]
	var model []*int
	for i := range 10_000 {
		switch k := rnd.IntN(40); {
		case k == 0:
			q.Clear()
			model = nil
		case k < 20+i%2:
			n := new(int)
			q.Push(n)
			model = append(model, n)
		default:
			n, ok := q.Pop()
			if ok != (len(model) > 0) || ok && n != model[0] {
				t.Fatalf("step %d: popped %v, %v", i, n, ok)
			}
			if ok {
				model = model[1:]
			}
		}
		if q.Len() != len(model) {
			t.Fatalf("step %d: %d items, want %d", i, q.Len(), len(model))
		}
		held := 0
		for _, n := range slices.Concat(q.items[:cap(q.items)], q.first[:]) {
			if n != nil && !slices.Contains(model, n) {
				held++
			}
		}
		if held > 0 {
			t.Fatalf("step %d: %d items are kept alive", i, held)
		}
	}
}
