// Command protogen writes the Go code of the schemas below proto/.
//
//	go run ./proto/protogen [--check] [directory of the module]
//
// It compiles the schemas itself, in Go, and hands what they say to protoc-gen-go at
// the version that go.mod pins, so that a machine with Go and nothing else makes the
// same bytes. With --check nothing is written: it lists what differs and ends with
// status 1.
package main
