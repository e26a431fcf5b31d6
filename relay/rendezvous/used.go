package rendezvous

import (
	"sync"
	"time"
)

// usedURLs are the one-time URLs that have made a socket, until they expire.
type usedURLs struct {
	mu     sync.Mutex
	all    map[string]usedURL // by nonce
	shares shares
}

type usedURL struct {
	token   string
	expires time.Time
}

// take uses one up, or is the rejection that says why it cannot be.
func (u *usedURLs) take(nonce, token string, expires time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, used := u.all[nonce]; used {
		return rejectExpired
	}
	if !u.shares.take(token, MaxUsedURLs) {
		return rejectUnavailable
	}
	if u.all == nil {
		u.all = map[string]usedURL{}
	}
	u.all[nonce] = usedURL{token, expires}
	return nil
}

// give takes take back.
func (u *usedURLs) give(nonce string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget(nonce)
}

func (u *usedURLs) forget(nonce string) {
	u.shares.give(u.all[nonce].token)
	delete(u.all, nonce)
}

// sweep forgets those that have expired.
func (u *usedURLs) sweep(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for nonce, used := range u.all {
		if now.After(used.expires) {
			u.forget(nonce)
		}
	}
}
