// Package limit holds commands to limits: of CPU time, memory, processes, the size of
// files and the time they run. A command that goes beyond one is killed with all that
// it has started, and the limit is named.
//
// On Linux each limited command gets a cgroup (version 2) of its own where this program
// may make one. Whatever the command starts is in it, and is killed together.
// With the memory and pids controllers the kernel enforces those limits; without, a
// watchdog measures what is in the cgroup. Where no cgroup can be made the watchdog
// finds the processes of a command by descent, session and namespace.
package limit
