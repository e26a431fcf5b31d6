package observe

import (
	"context"

	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server"
)

type requestFunc = func(ctx context.Context, method string, trace wire.TraceContext) (context.Context, func(error))

// Join makes one Observer of several. The first is the outermost: it sees a request
// begin first and end last.
func Join(observers ...server.Observer) server.Observer {
	var all server.Observer
	for i := len(observers) - 1; i >= 0; i-- {
		all.Request = joinRequest(observers[i].Request, all.Request)
		all.Received = joinCount(observers[i].Received, all.Received)
		all.Sent = joinCount(observers[i].Sent, all.Sent)
	}
	return all
}

func joinRequest(outer, inner requestFunc) requestFunc {
	if outer == nil {
		return inner
	}
	if inner == nil {
		return outer
	}
	return func(ctx context.Context, method string, trace wire.TraceContext) (context.Context, func(error)) {
		ctx, outerDone := outer(ctx, method, trace)
		ctx, innerDone := inner(ctx, method, trace)
		return ctx, func(err error) {
			innerDone(err)
			outerDone(err)
		}
	}
}

func joinCount(outer, inner func(bytes int)) func(bytes int) {
	if outer == nil {
		return inner
	}
	if inner == nil {
		return outer
	}
	return func(bytes int) {
		outer(bytes)
		inner(bytes)
	}
}
