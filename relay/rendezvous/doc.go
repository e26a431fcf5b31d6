// Package rendezvous is what a relay is: a registry, where executors say where they are
// and harnesses ask, and a rendezvous, which passes frames between them.
package rendezvous
