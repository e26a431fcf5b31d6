// Package attack does to the real binary what an attacker would, as root and as an
// ordinary user. Each test is named after the finding that it repeats (S-H1 is
// TestSH1). The tests have the build tag attack and run with `make attack`; `make ci`
// runs them with -short.
package attack
