package rpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// However many connections take what they can, another one still gets something, and
// small requests always pass.
func TestSM4FairShares(t *testing.T) {
	const size = 1 << 30
	b := NewBudget(size)
	var held int64
	var greedy []*Account
	for i := range 8 {
		a := b.NewAccount(nil)
		for a.TryTake(1 << 10) {
			held += 1 << 10
		}
		if counted(a.held.Load()) == 0 {
			t.Fatalf("connection %d gets nothing", i)
		}
		greedy = append(greedy, a)
		if b.Used() > size || held > size+8*protocol.FreeConnectionBytes {
			t.Fatalf("%d bytes are held", held)
		}
	}
	small := b.NewAccount(nil)
	for range 100 {
		if !small.TryTake(protocol.FreeConnectionBytes) {
			t.Fatal("a small request is refused")
		}
		small.Give(protocol.FreeConnectionBytes)
	}
	greedy[0].Give(greedy[0].held.Load())
	if !small.TryTake(100 << 20) {
		t.Error("what was given back is not there for others")
	}
	small.Give(100 << 20)
	for _, a := range greedy[1:] {
		a.Give(a.held.Load())
	}
	if b.Used() != 0 {
		t.Errorf("%d bytes have not come back", b.Used())
	}
}

// A request waits for memory, but not for ever.
func TestSM4WaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100 << 20)
		a, other := b.NewAccount(nil), b.NewAccount(nil)
		a.Force(100 << 20)
		began := time.Now()
		if err := other.Take(t.Context(), 10<<20); !IsBusy(err) || time.Since(began) != protocol.MemoryWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := other.Take(t.Context(), 90<<20); !IsBusy(err) || time.Since(began) != protocol.MemoryWait {
			t.Errorf("more than there can be: %v after %v", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { a.Give(100 << 20) })
		if err := other.Take(t.Context(), 10<<20); err != nil {
			t.Error(err)
		}
		a.Force(100 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := other.Take(ctx, 10<<20); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		advanceUntilQuiet(b)
	})
}

// advanceUntilQuiet waits for the end of the goroutine that watches b.
func advanceUntilQuiet(b *Budget) {
	for {
		b.mu.Lock()
		watched := b.watched
		b.mu.Unlock()
		if !watched {
			return
		}
		<-time.After(time.Second)
	}
}

// Answers that a connection's requests wait for are read although more memory is in use
// than there is: the requests give theirs back once they have them.
func TestSM4AnswersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		account := b.NewAccount(nil)
		account.Force(2 << 20)
		near, far := Pair()
		helper := NewPeer(far, PeerConfig{})
		p := NewPeer(near, PeerConfig{Account: account, OnlyAnswers: true})
		for _, peer := range []*Peer{helper, p} {
			go func() { _ = peer.Serve(t.Context()) }()
			defer peer.Close()
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := p.Call(ctx, "method", struct{}{}, nil)
			cancel()
			if failure, ok := errors.AsType[*protocol.Error](err); !ok || failure.Code != protocol.CodeMethodNotFound {
				t.Errorf("got %v", err)
			}
		}
		account.Give(2 << 20)
		advanceUntilQuiet(b)
	})
}

// A connection that keeps what others wait for is closed, too, when they wait for less
// than that takes, and then try again.
func TestSM4StuckConnectionsAreClosedBetweenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100 << 20)
		var stuck *Account
		stuck = b.NewAccount(func(string) { stuck.Give(stuck.held.Load()) })
		stuck.Force(90 << 20)
		waiter := b.NewAccount(nil)
		began := time.Now()
		for range 4 {
			if waiter.Take(t.Context(), 30<<20) == nil {
				break
			}
			<-time.After(5 * time.Second)
		}
		if took := time.Since(began); waiter.held.Load() == 0 || took > protocol.MemoryPatience+5*time.Second {
			t.Errorf("%d bytes after %v", waiter.held.Load(), took)
		}
		advanceUntilQuiet(b)
	})
}

// Who keeps what others wait for is closed, the one that keeps most first; who gives back
// as much as it holds stays.
func TestSM4StuckConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100 << 20)
		var closed []string
		accounts := map[string]*Account{}
		for _, name := range []string{"stuck", "less", "busy"} {
			accounts[name] = b.NewAccount(func(string) {
				closed = append(closed, name)
				accounts[name].Give(accounts[name].held.Load())
			})
		}
		accounts["stuck"].Force(50 << 20)
		accounts["less"].Force(5 << 20)
		accounts["busy"].Force(44 << 20)
		waiter := b.NewAccount(nil)
		began := time.Now()
		for {
			if err := waiter.Take(t.Context(), 30<<20); err == nil {
				break
			}
			accounts["busy"].Give(40 << 20) // and takes it anew
			accounts["busy"].Force(40 << 20)
		}
		if took := time.Since(began); len(closed) != 1 || closed[0] != "stuck" || took > protocol.MemoryPatience+5*time.Second {
			t.Errorf("closed %q after %v", closed, took)
		}
		advanceUntilQuiet(b)
	})
}
