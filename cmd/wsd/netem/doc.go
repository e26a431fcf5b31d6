// Package netem runs relay, executor and client on three machines with a bad network
// between them: packets lost, late and out of order, a link that is down for a while,
// an address that changes.
//
// The machines are network namespaces of the kernel, with its TCP. What joins them is
// a wire in the test, which moves the packets of three TUN devices: the kernel's own
// netem is not in every kernel, and cannot be given a seed. Namespaces and devices
// have no names; they are gone with the test, however it ends.
//
// It has tests only, behind the build tag e2e, run by `make e2e` on the wsd that WSD_BIN
// names, else on one they build. They need Linux, and from the kernel namespaces and
// TUN devices; where it refuses them they say so and are skipped.
package netem
