// Package natstest starts real NATS servers for tests: a cluster with JetStream, in this
// process, on loopback, whose servers can be stopped, started again and cut off from one
// another. It is for tests alone; no program of ours imports it.
package natstest
