package rendezvous

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// An auditor writes who came and went, a line of JSON each: time, event, environment,
// token id, fingerprint, remote address. Never a token, an authorization or a query.
// Refusals of what has no credential are counted alone: anybody can make them.
type auditor struct {
	log *slog.Logger

	mu    sync.Mutex
	count map[refusal]int
	since time.Time
}

// A refusal is one kind of them. There are as many as the relay has words.
type refusal struct {
	status int
	reason string
}

func newAuditor(w io.Writer) *auditor {
	if w == nil {
		return &auditor{}
	}
	return &auditor{log: slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 {
				switch a.Key {
				case slog.LevelKey:
					return slog.Attr{}
				case slog.MessageKey:
					a.Key = "event"
				}
			}
			return a
		},
	}))}
}

// refused counts one.
func (a *auditor) refused(status int, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil {
		a.count, a.since = map[refusal]int{}, time.Now()
	}
	a.count[refusal{status, reason}]++
}

// sum is what was refused since the last sum, nil for nothing.
func (a *auditor) sum() []slog.Attr {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == nil {
		return nil
	}
	all := make([]any, 0, len(a.count))
	for _, r := range slices.SortedFunc(maps.Keys(a.count), func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.status, b.status), cmp.Compare(a.reason, b.reason))
	}) {
		all = append(all, slog.Int(strconv.Itoa(r.status)+" "+r.reason, a.count[r]))
	}
	a.count = nil
	return []slog.Attr{slog.Time("since", a.since), slog.Group("counts", all...)}
}

func (a *auditor) write(event string, attrs ...slog.Attr) {
	if a.log != nil {
		a.log.LogAttrs(context.Background(), slog.LevelInfo, event, attrs...)
	}
}
