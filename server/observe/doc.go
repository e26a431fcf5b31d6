// Package observe shows a server to Prometheus and OpenTelemetry. Both are off unless
// asked for, and package server knows of neither: what is here plugs into
// server.Config.Observer.
//
// No metric or span carries what a client sent, beyond the names of methods that the
// server has: labels stay few, and traces hold no secrets. All methods are safe for
// concurrent use.
package observe
