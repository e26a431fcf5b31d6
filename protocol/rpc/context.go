package rpc

import "context"

// closableContext returns ctx, ended with ErrClosed once closed is.
func closableContext(ctx context.Context, closed <-chan struct{}) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(ctx)
	select {
	case <-closed:
		cancel(ErrClosed)
		return out, func() {}
	default:
	}
	stop := make(chan struct{})
	go func() { // ends with the call that made the context
		select {
		case <-closed:
			cancel(ErrClosed)
		case <-stop:
		}
	}()
	return out, func() {
		close(stop)
		cancel(context.Canceled)
	}
}
