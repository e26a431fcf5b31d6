//go:build race

package seal

// tamperStride: the race detector makes ML-KEM ten times as slow and finds the same in
// a fifth of the bytes. Without it every byte is tampered with.
const tamperStride = 5
