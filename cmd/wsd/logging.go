package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// logOptions are the flags of what a server writes to standard error.
type logOptions struct {
	level  string
	format string
}

// The formats of a log.
const (
	logText = "text"
	logJSON = "json"
)

func (o *logOptions) addFlags(f *pflag.FlagSet, level string) {
	f.StringVar(&o.level, "log-level", level, "log to standard error from `LEVEL` on: debug, info, warn, error")
	f.StringVar(&o.format, "log-format", logText, "write the log as `FORMAT`: text or json")
}

// check refuses values that the flags do not have.
func (o *logOptions) check(hint string) error {
	if err := new(slog.Level).UnmarshalText([]byte(o.level)); err != nil {
		return usagef(hint, "invalid value %q for --log-level: want debug, info, warn or error", o.level)
	}
	if o.format != logText && o.format != logJSON {
		return usagef(hint, "invalid value %q for --log-format: want text or json", o.format)
	}
	return nil
}

// logger writes to w as the flags, which have been checked, say.
func (o *logOptions) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.level))
	opts := &slog.HandlerOptions{Level: level}
	if o.format == logJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
