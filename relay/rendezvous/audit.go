package rendezvous

import (
	"context"
	"io"
	"log/slog"
)

// An auditor writes who came and went, a line of JSON each: time, event, environment,
// token id, fingerprint, remote address. Never a token, an authorization or a query.
type auditor struct{ log *slog.Logger }

func newAuditor(w io.Writer) *auditor {
	if w == nil {
		return &auditor{}
	}
	return &auditor{slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
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

func (a *auditor) write(event string, attrs ...slog.Attr) {
	if a.log != nil {
		a.log.LogAttrs(context.Background(), slog.LevelInfo, event, attrs...)
	}
}
