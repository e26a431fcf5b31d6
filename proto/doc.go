// Package proto is where the protobuf schemas of wsd lie, each at the path that its
// package name asks for (wsd/relay/v1/relay.proto). The Go code made from them is
// committed beside it, one package a schema (relayv1). The command protogen makes it;
// a test of its own fails when schema and code differ.
package proto
