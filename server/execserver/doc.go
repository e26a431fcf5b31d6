// Package execserver puts the exec-server together: the methods of process, fs,
// environment and httprequest on the connections and sessions of package server.
//
// There is one table of methods, the same for every server. Processes belong to a
// session and outlive its connection; file handles, watches and HTTP requests
// belong to a connection; the description of the machine to the server.
package execserver
