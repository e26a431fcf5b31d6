// Package sandbox confines processes and file operations to the sandbox object of
// the exec-server wire.
//
// Resolve turns a protocol.Sandbox into a Policy: rules that give paths an access, of
// which the most specific wins. A layout places the rules on the disk as it is: links
// resolved, globs expanded, names that must not appear in a writable root noted. The
// layout becomes a plan, and a helper, which is this very binary in a hidden mode
// (see Main), carries the plan out on itself and then becomes the program by exec: pid,
// parent, process group, terminal and exit status are those of the program.
//
// On Linux the plan is carried out in a mount namespace and, also for root, a user
// namespace of its own:
//
//   - What may only be read is on mounts that are read-only: EROFS.
//   - What is denied is covered by something without permissions: EACCES.
//   - What a policy with a restricted list of reads does not name is not there: ENOENT.
//   - .git, .agents, .codex and .aws in a writable root are read-only, and cannot be
//     made where they are missing, unless the policy has an entry for them.
//   - /dev holds harmless devices only; /proc and /sys are read-only.
//   - No capability is left, and no way to new ones; the system calls that make
//     namespaces and mounts are refused.
//   - Without network a seccomp filter refuses sockets (a socketpair is all that works),
//     and the network namespace is empty.
//   - Where Landlock can, signals and abstract sockets stay inside, and FIFOs outside
//     writable places cannot be written to: EACCES.
//   - Limits, priority and processors can be changed of the caller only: EPERM.
//
// Where namespaces are not to be had, Landlock alone serves policies without writable
// places. Whatever cannot be enforced is refused with data.kind sandboxUnavailable;
// nothing runs with less than what was asked. Other systems refuse every policy that
// confines at all.
//
// There is no pid namespace: confined processes see the others in /proc, but cannot
// open what belongs to them.
//
// Everything exported is safe for concurrent use.
package sandbox
