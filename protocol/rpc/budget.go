package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// A Budget bounds the memory that all connections of a server hold together for what
// their clients send and ask for. Each connection takes from it through an Account.
//
// The first protocol.FreeConnectionBytes of each connection are not counted, so that
// small requests pass whatever others hold. Beyond that a connection may hold at most
// fairShare times what is free: one that holds much leaves something for others, and the
// more hold much the less each of them gets.
type Budget struct {
	size int64
	used atomic.Int64

	waiting  atomic.Int32 // callers of Take that wait
	mu       sync.Mutex
	room     chan struct{} // closed and replaced when something is given back; nil if nobody waits
	accounts map[*Account]struct{}
	watched  bool // revoke runs
	guard    *guard
}

// fairShare is how many times the free memory one connection may hold.
const fairShare = 4

// slowest is in how many protocol.MemoryPatience a connection must write what it holds.
const slowest = 8

// NewBudget makes a Budget of size bytes.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, accounts: make(map[*Account]struct{})}
}

// Size is what the Budget allows.
func (b *Budget) Size() int64 { return b.size }

// Used is what is held.
func (b *Budget) Used() int64 { return b.used.Load() }

// most is what one connection can hold while no other holds anything.
func (b *Budget) most() int64 { return b.size / (fairShare + 1) * fairShare }

// An Account is what one connection holds of a Budget. The nil Account belongs to no
// Budget: it allows everything and counts nothing.
type Account struct {
	budget *Budget
	revoke func(reason string)

	held       atomic.Int64
	given      atomic.Int64 // counted bytes given back so far
	sent       atomic.Int64 // bytes of messages that have been written in part so far
	maxMessage atomic.Int64

	// Owned by the Budget's revoke.
	mark struct {
		at    time.Time
		held  int64
		given int64
		sent  int64
	}
}

// Sent counts n bytes of a message that the connection has written. The memory of a message
// comes back when all of it is written, and a slow reader of a long one makes progress
// before that.
func (a *Account) Sent(n int) {
	if a != nil {
		a.sent.Add(int64(n))
	}
}

// NewAccount makes the Account of a connection. revoke closes the connection; it is
// called when the connection keeps what others wait for. It may be nil.
func (b *Budget) NewAccount(revoke func(reason string)) *Account {
	if b == nil {
		return nil
	}
	a := &Account{budget: b, revoke: revoke}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts[a] = struct{}{}
	return a
}

// Close ends the account of a connection that has ended. Memory that it still holds
// counts until it comes back.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	delete(a.budget.accounts, a)
}

// SetMaxMessage bounds the messages that the connection may receive from now on; 0
// leaves that to the connection.
func (a *Account) SetMaxMessage(n int64) {
	if a != nil {
		a.maxMessage.Store(n)
	}
}

// MaxMessage is what SetMaxMessage has set, or limit if that is less.
func (a *Account) MaxMessage(limit int64) int64 {
	if a == nil {
		return limit
	}
	if n := a.maxMessage.Load(); n > 0 {
		return min(n, limit)
	}
	return limit
}

// counted is how much of a connection's memory counts.
func counted(held int64) int64 { return max(0, held-protocol.FreeConnectionBytes) }

// TryTake takes n bytes if they are there at once.
func (a *Account) TryTake(n int64) bool {
	if a == nil {
		return true
	}
	for {
		held := a.held.Load()
		more := counted(held+n) - counted(held)
		if counted(held+n) > 0 && !a.budget.reserve(more, counted(held+n)) {
			return false
		}
		if a.held.CompareAndSwap(held, held+n) {
			return true
		}
		a.budget.giveBack(more)
	}
}

// reserve takes more bytes for an account that then has all.
func (b *Budget) reserve(more, all int64) bool {
	for {
		used := b.used.Load()
		free := b.size - used - more
		if free < 0 || all/fairShare > free {
			return false
		}
		if b.used.CompareAndSwap(used, used+more) {
			b.grown(used + more)
			return true
		}
	}
}

func (b *Budget) grown(used int64) {
	if b.guard != nil && used >= b.guard.from {
		b.guard.wake()
	}
}

// Take takes n bytes. It waits for them, protocol.MemoryWait at most, and then returns
// an error that tells the client to try again, or the cause of ctx's end.
func (a *Account) Take(ctx context.Context, n int64) error {
	return a.take(ctx, n, protocol.MemoryWait)
}

// TakeMore is Take for who holds some already, and therefore waits only for
// protocol.MemoryMoreWait: others might wait for that in turn.
func (a *Account) TakeMore(ctx context.Context, n int64) error {
	return a.take(ctx, n, protocol.MemoryMoreWait)
}

func (a *Account) take(ctx context.Context, n int64, wait time.Duration) error {
	if a.TryTake(n) {
		return nil
	}
	b := a.budget
	if n > b.most() {
		return protocol.Errorf(protocol.CodeBusy, "this needs %d MiB of memory, and the server gives one client %d MiB at most; "+
			"ask for less at a time, for files with fs/open and fs/readBlock", n>>20, b.most()>>20)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errNoMemory)
	defer cancel()
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	for {
		room := b.waitRoom()
		if a.TryTake(n) { // something was given back meanwhile
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errNoMemory is the answer to requests for which there is no memory.
var errNoMemory = &protocol.Error{
	Code: protocol.CodeBusy, Message: "the server's memory is in use by other large requests; try again in a while, or ask for less at a time",
}

// IsBusy reports whether err says that there is no memory in the Budget.
func IsBusy(err error) bool {
	failure, ok := errors.AsType[*protocol.Error](err)
	return ok && failure.Code == protocol.CodeBusy
}

// waitRoom returns a channel that is closed when something has been given back.
func (b *Budget) waitRoom() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room == nil {
		b.room = make(chan struct{})
	}
	if !b.watched {
		b.watched = true
		go b.watch() // ends when nobody waits any more
	}
	return b.room
}

// Crowded reports whether so much of the Budget is in use that memory should not be kept
// for later.
func (a *Account) Crowded() bool {
	return a != nil && a.budget.used.Load() > a.budget.size/4
}

// within reports whether the connection may receive more: it holds nothing that counts,
// or Force has not taken more than the Budget has.
func (a *Account) within() bool {
	return a == nil || counted(a.held.Load()) == 0 || a.budget.used.Load() <= a.budget.size
}

// Over reports whether the connection holds more than its share of what is free: after
// Force it may.
func (a *Account) Over() bool {
	if a == nil {
		return false
	}
	held := counted(a.held.Load())
	return held > 0 && held/fairShare > a.budget.size-a.budget.used.Load()
}

// settle waits until the connection may receive more.
func (a *Account) settle(ctx context.Context, closed <-chan struct{}) error {
	if a.within() {
		return nil
	}
	a.budget.waiting.Add(1)
	defer a.budget.waiting.Add(-1)
	for {
		room := a.budget.waitRoom()
		if a.within() {
			return nil
		}
		select {
		case <-room:
		case <-closed:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// CheckMessage returns an error that is ErrTooLarge for a message of n bytes that is
// longer than SetMaxMessage allows.
func (a *Account) CheckMessage(n int) error {
	if a == nil {
		return nil
	}
	if most := a.maxMessage.Load(); most > 0 && int64(n) > most {
		return tooLargeYet{most}
	}
	return nil
}

// tooLargeYet is ErrTooLarge before initialize.
type tooLargeYet struct{ most int64 }

func (e tooLargeYet) Error() string {
	return fmt.Sprintf("before initialize a message may have %d bytes", e.most)
}

func (e tooLargeYet) Is(target error) bool { return target == ErrTooLarge }

// Force takes n bytes whether they are there or not: they are used already.
func (a *Account) Force(n int64) {
	if a == nil {
		return
	}
	held := a.held.Add(n)
	if more := counted(held) - counted(held-n); more > 0 {
		a.budget.grown(a.budget.used.Add(more))
	}
}

// Give gives n bytes back.
func (a *Account) Give(n int64) {
	if a == nil || n == 0 {
		return
	}
	held := a.held.Add(-n)
	if less := counted(held+n) - counted(held); less > 0 {
		a.given.Add(less)
		a.budget.giveBack(less)
	}
}

func (b *Budget) giveBack(n int64) {
	if n == 0 {
		return
	}
	b.used.Add(-n)
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// watch revokes connections that keep what others wait for, while there are such others.
// It goes on for protocol.MemoryPatience after the last: others give up sooner, and then
// try again.
func (b *Budget) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	began := time.Now()
	waited := began
	for now := range tick.C {
		b.mu.Lock()
		stuck := b.stuck(now, began)
		switch {
		case b.waiting.Load() > 0:
			waited = now
		case now.Sub(waited) > protocol.MemoryPatience:
			b.watched = false
			b.mu.Unlock()
			return
		default:
			stuck = nil
		}
		if stuck != nil {
			stuck.mark.at = now // it is closing
		}
		b.mu.Unlock()
		if stuck != nil {
			stuck.revoke("the server is short of memory, and this connection has kept much of it without any progress; try again in a while")
		}
	}
}

// stuck returns, of the connections without progress, the one that holds most. Progress
// within protocol.MemoryPatience is to free as much as was held at its beginning, or to
// write one part in slowest of that. It is called with the mutex.
func (b *Budget) stuck(now, began time.Time) (most *Account) {
	for a := range b.accounts {
		held, given, sent := counted(a.held.Load()), a.given.Load(), a.sent.Load()
		switch {
		case a.mark.at.Before(began) || given-a.mark.given >= a.mark.held || sent-a.mark.sent >= a.mark.held/slowest:
			a.mark.at, a.mark.held, a.mark.given, a.mark.sent = now, held, given, sent
		case held >= protocol.FreeConnectionBytes && a.revoke != nil && now.Sub(a.mark.at) >= protocol.MemoryPatience &&
			(most == nil || held > counted(most.held.Load())):
			most = a
		}
	}
	return most
}

// Charge takes n bytes for the request that ctx belongs to, and waits for them as Take
// does. They are given back when the answer has been written or the request dropped. Where
// ctx belongs to no request of a connection with an Account, everything is allowed.
func Charge(ctx context.Context, n int64) error {
	c, ok := ctx.Value(taskKey{}).(taskContext)
	if !ok || n <= 0 {
		return nil
	}
	account := c.req.peer.account
	if !account.TryTake(n) {
		if c.task.here {
			c.req.HandOff()
		}
		take := account.Take
		if c.req.loan.Load() > 0 {
			take = account.TakeMore
		}
		if err := take(ctx, n); err != nil {
			return err
		}
	}
	c.req.loan.Add(n)
	return nil
}

// Refund gives back, before the answer, n of the bytes that Charge has taken.
func Refund(ctx context.Context, n int64) {
	if c, ok := ctx.Value(taskKey{}).(taskContext); ok && n > 0 {
		c.req.loan.Add(-n)
		c.req.peer.account.Give(n)
	}
}

// AccountOf returns the Account of the connection that n notifies, nil if there is none.
func AccountOf(n Notifier) *Account {
	if p, ok := n.(interface{ Account() *Account }); ok {
		return p.Account()
	}
	return nil
}
