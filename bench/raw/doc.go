// Package raw is a lean client of the exec-server wire for measuring and for
// maltreating servers. It speaks just enough WebSocket to send what it is given, byte
// for byte, and looks at no more of an answer than it must, so that the figures it
// takes are the server's. It shares no code with the server or the client library.
//
// A Client is for one goroutine, except that Send may run beside Read, and Close
// beside both.
package raw
