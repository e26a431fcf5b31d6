//go:build !linux

package watch

func newSystemBackend(told func(backend, []Event, bool)) (backend, error) {
	return newPortableBackend(told)
}

func newClosingBackend(told func(backend, []Event, bool)) (backend, error) {
	return newPortableBackend(told)
}
