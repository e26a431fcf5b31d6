package registry

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// RetryRegister reports whether an executor that was never registered asks again: for
// 503 registration_conflict and 502 authentication_service_unavailable, for ever, and
// for nothing else (registry.md, section 3).
func RetryRegister(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && (e.Status == http.StatusServiceUnavailable && e.Code == CodeRegistrationConflict ||
		e.Status == http.StatusBadGateway && e.Code == CodeAuthUnavailable)
}

// RetryRenewal reports whether an executor that was registered before asks again: as
// RetryRegister, when the registry could not be reached, answered 408, 429 or 5xx, and when
// the login could not be read. This is ours: codex ends here. A relay that restarts must not end its executors.
func RetryRenewal(err error) bool { return RetryRegister(err) || transient(err) }

// InUse reports whether err says that another executor, with other keys, has the
// environment, or for a foreign registry any conflict. An executor that was there before
// waits for its place: the other one may have taken it while it was cut off.
func InUse(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status == http.StatusConflict && e.Code != CodeReplaced
}

// RetryConnect reports whether a harness asks again: when the registry could not be
// reached or did not answer to the end, for 408, 429 and 5xx, for 409
// environment_offline (registry.md, section 3), and when the login could not be read.
func RetryConnect(err error) bool {
	if e, ok := errors.AsType[*StatusError](err); ok && e.Status == http.StatusConflict {
		return e.Code == CodeOffline
	}
	return transient(err)
}

// transient reports whether err may pass by itself.
func transient(err error) bool {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests
	}
	_, unreachable := errors.AsType[*UnreachableError](err)
	_, unread := errors.AsType[*LoginError](err)
	return unreachable || unread
}

// Delay is how long to wait after attempt failed, counted from 0: 0.5, 1, 2, 4, 5, 5, …
// seconds, and 0 to 50 percent more by chance. Without r there is no chance.
func Delay(attempt int, r *rand.Rand) time.Duration {
	base := 5 * time.Second
	if attempt < 4 {
		base = 500 * time.Millisecond << max(attempt, 0)
	}
	if r == nil {
		return base
	}
	return base + time.Duration(r.Int64N(int64(base/2)+1))
}
