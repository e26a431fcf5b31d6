// Command wsd runs processes and reads and writes files for AI agents, over the
// wire of the codex exec-server.
//
// main.go and root.go hold what every command shares: the app, the command tree and
// the exit codes. Each other file is one command, made by newXxxCmd. Commands write
// their intended output to app.stdout and everything else to app.stderr, and return
// an error instead of exiting: a usageError is exit status 2 with a hint, an
// exitError carries its own status, any other error is 1.
package main
