package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// A textValue is a flag whose value is not empty: an empty one is of a variable that is not set.
type textValue string

// textFlag adds such a flag.
func textFlag(flags *pflag.FlagSet, to *string, name, usage string) {
	flags.Var((*textValue)(to), name, usage)
}

// Type implements pflag.Value.
func (*textValue) Type() string { return "string" }

// String implements pflag.Value.
func (v *textValue) String() string { return string(*v) }

// Set implements pflag.Value.
func (v *textValue) Set(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	*v = textValue(text)
	return nil
}

// A patienceValue is a duration that is not negative.
type patienceValue struct{ *durationValue }

// Set implements pflag.Value.
func (v patienceValue) Set(text string) error {
	n, err := parseDuration(text)
	if err == nil && n < 0 {
		err = errors.New("it is negative")
	}
	if err == nil {
		*v.durationValue = durationValue(n)
	}
	return err
}

// patienceFlag adds a flag for how long to wait.
func patienceFlag(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var(patienceValue{(*durationValue)(to)}, name, usage)
}
