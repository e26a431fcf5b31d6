package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationValue is a flag: a time with its unit, days too.
type durationValue time.Duration

// durationFlag adds a flag for a time.
func durationFlag(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var((*durationValue)(to), name, usage)
}

// Type implements pflag.Value.
func (*durationValue) Type() string { return "duration" }

// String implements pflag.Value. 0 is a default that no help shows.
func (d *durationValue) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Set implements pflag.Value.
func (d *durationValue) Set(text string) error {
	n, err := parseDuration(text)
	*d = durationValue(n)
	return err
}

// parseDuration reads times as package time does, and days of 24 hours: 30d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	none := errors.New("want a time with its unit, such as 300ms, 10s, 5m, 1h30m or 30d")
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, none
		}
		return d, nil
	}
	days, err := strconv.ParseUint(number, 10, 16)
	if err != nil || strings.HasPrefix(rest, "-") {
		return 0, none
	}
	d := time.Duration(days) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more >= day {
		return 0, none
	}
	return d + more, nil
}
