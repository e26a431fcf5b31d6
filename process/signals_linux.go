package process

// maxSignal is the highest signal number.
const maxSignal = 64
