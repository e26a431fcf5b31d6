package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/ignore"
	"github.com/wsd-dev/wsd/fs/rawname"
)

// ignoreFile is the file of a directory with patterns of what is not synchronised.
const ignoreFile = ".wsdignore"

// maxIgnoreBytes bounds the patterns of the command line and the files that it names.
const maxIgnoreBytes = 256 << 10

// The flags with patterns. They count in the order in which they are given.
const (
	flagIgnore     = "ignore"
	flagInclude    = "include"
	flagIgnoreFile = "ignore-file"
	flagGitignore  = "gitignore"
)

// ruleFlags are the patterns of the command line.
type ruleFlags struct {
	given []ruleFlag
	git   bool
}

// A ruleFlag is a flag as it was given.
type ruleFlag struct{ flag, value string }

// A ruleValue takes the values of one of the flags.
type ruleValue struct {
	flags      *ruleFlags
	name, what string
}

func (v *ruleValue) String() string { return "" }

func (v *ruleValue) Type() string { return v.what }

func (v *ruleValue) Set(text string) error {
	v.flags.given = append(v.flags.given, ruleFlag{v.name, text})
	return nil
}

func (f *ruleFlags) add(flags *pflag.FlagSet) {
	flags.Var(&ruleValue{f, flagIgnore, "PATTERN"}, flagIgnore, "leave alone what `PATTERN` matches, as a line of a .gitignore does;\nmay be given again, as may the next two: the last match decides")
	flags.Var(&ruleValue{f, flagInclude, "PATTERN"}, flagInclude, "do not leave alone what `PATTERN` matches")
	flags.Var(&ruleValue{f, flagIgnoreFile, "FILE"}, flagIgnoreFile, "take the lines of `FILE` for patterns")
	flags.BoolVar(&f.git, flagGitignore, false, "leave alone what the .gitignore files in LOCAL match")
}

// texts are the patterns as texts of files, in their order.
func (f *ruleFlags) texts() ([]string, error) {
	var texts []string
	size := 0
	for _, given := range f.given {
		text := ""
		switch given.flag {
		case flagIgnoreFile:
			var err error
			if text, err = readRules(given.value); err != nil {
				return nil, fmt.Errorf("--%s: %w", flagIgnoreFile, err)
			}
		case flagInclude:
			if strings.HasPrefix(given.value, "!") {
				return nil, usagef("leave out the !, which --include stands for", "invalid value %q for --%s", given.value, given.flag)
			}
			text = ignore.Line("!" + given.value)
		default:
			text = ignore.Line(given.value)
		}
		if given.flag != flagIgnoreFile {
			if err := ignore.Check(given.value); err != nil {
				return nil, usagef("write a pattern as in a .gitignore, such as node_modules, '*.o' or /build/", "invalid value %q for --%s: %w", given.value, given.flag, err)
			}
		}
		if size += len(text); size > maxIgnoreBytes {
			return nil, usagef("ignore directories instead of what is in them", "the patterns of what is ignored have more than %d bytes", maxIgnoreBytes)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// readRules reads a file with patterns.
func readRules(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes+1))
	if err != nil {
		return "", err
	}
	text := string(data)
	if n, err := ignore.CheckText(text); err != nil {
		return "", fmt.Errorf("%s:%d: %w", path, n, err)
	}
	return text, nil
}

// explainRules says what to do about what is ignored.
func explainRules(err error) error {
	if rules, ok := errors.AsType[*mirror.RulesError](err); ok {
		at := ""
		if rules.Path != "" {
			at = rawname.Show(localName(rules.Path)) + ": "
			if rules.Line > 0 {
				at = fmt.Sprintf("%s:%d: ", rawname.Show(localName(rules.Path)), rules.Line)
			}
		}
		err = fmt.Errorf("read what is ignored: %s%w", at, rules.Err)
		if errors.Is(err, ignore.ErrPattern) {
			return withHint(err, "correct the line or take it out; nothing has been synchronised")
		}
		return err
	}
	if errors.Is(err, mirror.ErrIgnored) {
		return withHint(err, "a pattern for a directory, such as build/, stands for all that is in it")
	}
	return err
}
