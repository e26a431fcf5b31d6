package rendezvous

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/handoff"
)

// Whoever takes all there is leaves room for others, and there are never more than may be.
func TestShares(t *testing.T) {
	var s shares
	take := func(who string) (n int) {
		for s.take(who, 100) {
			n++
		}
		return n
	}
	if n := take("a"); n != 50 {
		t.Errorf("one alone has %d", n)
	}
	if n := take("b"); n != 25 {
		t.Errorf("the second has %d", n)
	}
	for i := range 1000 {
		take(fmt.Sprint(i))
		if s.total > 100 {
			t.Fatalf("%d are taken", s.total)
		}
	}
	for who, n := range s.all {
		for range n {
			s.give(who)
		}
	}
	if s.total != 0 || len(s.all) != 0 {
		t.Errorf("left: %d, %v", s.total, s.all)
	}
}

// One token that uses up all the URLs that it may leaves room for others.
func TestSR4UsedURLsAreShared(t *testing.T) {
	var u usedURLs
	now := time.Now()
	n := 0
	for u.take(fmt.Sprint("flood", n), "flood", now.Add(time.Minute)) == nil {
		n++
	}
	if n != MaxUsedURLs/2 {
		t.Errorf("%d of one token", n)
	}
	for i := range 1000 {
		if err := u.take(fmt.Sprint("honest", i), "honest", now.Add(time.Minute)); err != nil {
			t.Fatalf("another token's %d: %v", i, err)
		}
	}
	if err := u.take("honest1", "honest", now); err != rejectExpired {
		t.Errorf("twice: %v", err)
	}
	u.sweep(now.Add(time.Hour))
	if len(u.all) != 0 || u.shares.total != 0 {
		t.Errorf("%d are kept", len(u.all))
	}
}

// stalled is a harness of a token whose queue is full.
func stalled(e *executor, m *meters, token string) *harness {
	h := newHarness(e.node, e, token+".k", "")
	h.sender = handoff.NewSender(handoff.SenderConfig[[]byte]{Lock: &h.queueing, Next: h.queue.Pop})
	h.queue.Push(nil)
	_ = h.sender.Start() // what is left is never sent
	h.bytes = MaxQueuedBytes
	h.meter, _ = m.enter(&Token{ID: token}, e.env, true)
	e.add(h)
	return h
}

func newExecutor() *executor {
	return &executor{
		node: &Node{log: slog.New(slog.DiscardHandler), audit: &auditor{}}, env: "lab",
		routes: map[string]*route{}, harnesses: map[*harness]struct{}{},
	}
}

// All sockets of a token that read nothing keep the others of their executor waiting for
// no longer than one, and less than a second.
func TestSR9PatienceIsTheTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meters
		e := newExecutor()
		stalled(e, &m, "innocent")
		began := time.Now()
		for range 20 {
			stalled(e, &m, "hostile").send(make([]byte, 100))
		}
		if took := time.Since(began); took >= time.Second {
			t.Errorf("others have waited for %v", took)
		}
		began = time.Now()
		stalled(e, &m, "other").send(make([]byte, 100))
		if took := time.Since(began); took != SharedStallTime {
			t.Errorf("another token's waits for %v", took)
		}
	})
}

// A harness that was the only one has no more patience than others once it is not.
func TestSR9PatienceEndsWhenOthersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m meters
		e := newExecutor()
		h := stalled(e, &m, "hostile")
		began := time.Now()
		sent := make(chan struct{})
		go func() { defer close(sent); h.send(make([]byte, 100)) }()
		time.Sleep(SharedStallTime / 2)
		stalled(e, &m, "innocent")
		<-sent
		if took := time.Since(began); took != SharedStallTime {
			t.Errorf("others have waited for %v", took)
		}
	})
}

// What waits is counted as the memory that it takes.
func TestSR8MemoryIsCounted(t *testing.T) {
	var m meters
	e := newExecutor()
	e.node.audit = &auditor{}
	h := stalled(e, &m, "a")
	h.bytes = 0
	h.send(make([]byte, 1, 64<<10))
	if got := e.node.queued.Load(); got != 64<<10 {
		t.Errorf("%d bytes are counted", got)
	}
	h.stop()
	if e.node.queued.Load() != 0 {
		t.Error("what has ended is counted")
	}
}

// The harnesses of one token hold half of the memory at most, and others go on then.
func TestSR8MemoryIsShared(t *testing.T) {
	var m meters
	e := newExecutor()
	frame := make([]byte, 256<<10)
	fill := func(token string) {
		for range 2 * MaxQueued / MaxQueuedBytes {
			h := stalled(e, &m, token)
			h.bytes = 0
			for !h.full(len(frame)) {
				h.send(frame)
			}
		}
	}
	fill("hostile")
	const slack = 2 * MaxQueued / MaxQueuedBytes * (256<<10 + minQueue)
	if got := e.node.queued.Load(); got > MaxQueued/2+slack {
		t.Errorf("one token holds %d bytes", got)
	}
	h := stalled(e, &m, "innocent")
	h.bytes = 0
	for range 40 {
		if h.full(len(frame)) {
			t.Fatal("another token has no room")
		}
		h.send(frame)
	}
}
