package rpc

import "context"

// Invoke runs a method of the scope's table on the service that is bound for it,
// without JSON, and returns what the method does. Orders and gates do not apply: it
// is for services that build on the methods of another. P and R are the types that
// Handle was given; others are a fault of this program, so it panics.
func Invoke[P, R any](ctx context.Context, s *Scope, method string, params *P) (result R, err error) {
	m := s.table.methods[method]
	if m == nil || s.services[m.slot] == nil {
		return result, notFound(method)
	}
	out, err := m.serve(ctx, s.services[m.slot], params)
	if err != nil {
		return result, err
	}
	return out.(R), nil
}
